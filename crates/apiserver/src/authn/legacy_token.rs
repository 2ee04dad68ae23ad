//! Legacy service account tokens in Secrets: valid as long as the Secret exists.
//!
//! Promise: such a token is valid only while the Secret that contains it exists.

use k3_api::{
    base64, name,
    strategy::{Tree, User},
};
use serde_json::Value;
use subtle::ConstantTimeEq;

use super::{
    lookup::{ObservedObject, TokenObjectLookup},
    service_account::ServiceAccountRef,
};

const CLAIMS: &str = "kubernetes.io/serviceaccount/";
/// The label of a Secret whose token is invalid.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
const INVALIDATED: &str = "Token has been invalidated";

/// Returns the user of verified claims, if the Secret that they name exists and contains exactly this token.
// upstream: pkg/serviceaccount/legacy.go legacyValidator, Validate
pub(super) fn validate_claims(
    claims: &Value,
    token: &str,
    lookup: &TokenObjectLookup,
    observed: &mut Vec<ObservedObject>,
) -> Result<User, String> {
    let claim = |name: &str| claims.text(&format!("{CLAIMS}{name}")).to_owned();
    let subject = claims.text("sub");
    let [namespace, secret, account, uid] = [
        "namespace",
        "secret.name",
        "service-account.name",
        "service-account.uid",
    ]
    .map(claim);
    for (value, claim) in [
        (subject, "sub"),
        (&namespace, "namespace"),
        (&secret, "secretName"),
        (&account, "serviceAccountName"),
        (&uid, "serviceAccountUID"),
    ] {
        if value.is_empty() {
            return Err(format!("{claim} claim is missing"));
        }
    }
    let is_named = name::validate_dns1123_label(&namespace).is_empty()
        && name::validate_dns1123_subdomain(&account).is_empty();
    if !is_named || subject != format!("system:serviceaccount:{namespace}:{account}") {
        return Err("sub claim is invalid".to_owned());
    }
    let Ok(secret_object) = lookup.observe("secrets", &namespace, &secret, observed) else {
        return Err(INVALIDATED.to_owned());
    };
    if secret_object.at("metadata").has("deletionTimestamp") {
        return Err(INVALIDATED.to_owned());
    }
    let copy = base64::decode(secret_object.at("data").text("token")).unwrap_or_default();
    if !bool::from(copy.ct_eq(token.as_bytes())) {
        return Err("Token does not match server's copy".to_owned());
    }
    let service_account = lookup
        .observe("serviceaccounts", &namespace, &account, observed)
        .map_err(|status| status.message)?;
    if service_account.at("metadata").has("deletionTimestamp") {
        return Err(format!("ServiceAccount {namespace}/{account} has been deleted"));
    }
    let account_uid = service_account.at("metadata").text("uid");
    if account_uid != uid {
        return Err(format!(
            "ServiceAccount UID ({account_uid}) does not match claim ({uid})"
        ));
    }
    let is_invalid = !secret_object
        .at_path("metadata.labels")
        .text(INVALID_SINCE)
        .is_empty();
    if is_invalid {
        return Err(format!(
            "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked \
             invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
             '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        ));
    }
    Ok(ServiceAccountRef {
        namespace: &namespace,
        name: &account,
        uid: &uid,
    }
    .user())
}
