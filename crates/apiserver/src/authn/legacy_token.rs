//! Legacy service account tokens in Secrets: valid as long as the Secret exists.
//!
//! Promise: such a token is valid only while the Secret that contains it exists.

use k3_api::{
    base64, name,
    status::Status,
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

/// Why the claims of a legacy token are not valid, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum LegacyClaimsError {
    #[error("{0} claim is missing")]
    Missing(&'static str),
    #[error("sub claim is invalid")]
    Subject,
    /// Its Secret was deleted.
    #[error("Token has been invalidated")]
    Invalidated,
    #[error("Token does not match server's copy")]
    OtherToken,
    /// The service account cannot be had.
    #[error(transparent)]
    Account(Status),
    /// Namespace and name.
    #[error("ServiceAccount {0} has been deleted")]
    AccountDeleted(String),
    #[error("ServiceAccount UID ({found}) does not match claim ({claimed})")]
    AccountUid { found: String, claimed: String },
    #[error(
        "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked \
         invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
         '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
    )]
    MarkedInvalid {
        namespace: String,
        secret: String,
        account: String,
    },
}

/// Returns the user of verified claims, if the Secret that they name exists and contains exactly this token.
// upstream: pkg/serviceaccount/legacy.go legacyValidator, Validate
pub(super) fn validate_claims(
    claims: &Value,
    token: &str,
    lookup: &TokenObjectLookup,
    observed: &mut Vec<ObservedObject>,
) -> Result<User, LegacyClaimsError> {
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
            return Err(LegacyClaimsError::Missing(claim));
        }
    }
    let is_named = name::validate_dns1123_label(&namespace).is_empty()
        && name::validate_dns1123_subdomain(&account).is_empty();
    if !is_named || subject != format!("system:serviceaccount:{namespace}:{account}") {
        return Err(LegacyClaimsError::Subject);
    }
    let Ok(secret_object) = lookup.observe("secrets", &namespace, &secret, observed) else {
        return Err(LegacyClaimsError::Invalidated);
    };
    if secret_object.at("metadata").has("deletionTimestamp") {
        return Err(LegacyClaimsError::Invalidated);
    }
    let copy =
        base64::decode(secret_object.at("data").text("token")).map_err(|_| LegacyClaimsError::OtherToken)?;
    if !bool::from(copy.ct_eq(token.as_bytes())) {
        return Err(LegacyClaimsError::OtherToken);
    }
    let service_account = lookup
        .observe("serviceaccounts", &namespace, &account, observed)
        .map_err(LegacyClaimsError::Account)?;
    if service_account.at("metadata").has("deletionTimestamp") {
        return Err(LegacyClaimsError::AccountDeleted(format!(
            "{namespace}/{account}"
        )));
    }
    let account_uid = service_account.at("metadata").text("uid");
    if account_uid != uid {
        return Err(LegacyClaimsError::AccountUid {
            found: account_uid.to_owned(),
            claimed: uid,
        });
    }
    let is_invalid = !secret_object
        .at_path("metadata.labels")
        .text(INVALID_SINCE)
        .is_empty();
    if is_invalid {
        return Err(LegacyClaimsError::MarkedInvalid {
            namespace,
            secret,
            account,
        });
    }
    Ok(ServiceAccountRef {
        namespace: &namespace,
        name: &account,
        uid: &uid,
    }
    .user())
}
