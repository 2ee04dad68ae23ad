//! Service account token Secrets.

use k3_workloads::{ObjectMeta, projected_object};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub(super) const KIND: &str = "kubernetes.io/service-account-token";
/// Annotation: name of the ServiceAccount.
pub(super) const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Annotation: UID of the ServiceAccount.
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Issuer of legacy tokens.
const ISSUER: &str = "kubernetes/serviceaccount";

/// The token itself is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TokenSecret {
    pub(super) metadata: ObjectMeta,
    data: TokenSecretData,
}

projected_object!(TokenSecret);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct TokenSecretData {
    /// The CA certificate, base64-encoded.
    #[serde(rename = "ca.crt")]
    authority: Box<str>,
    #[serde(rename = "namespace", deserialize_with = "is_present")]
    has_namespace: bool,
    #[serde(rename = "token", deserialize_with = "is_present")]
    has_token: bool,
}

/// Missing data of a Secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MissingTokenData {
    pub(super) authority: bool,
    pub(super) namespace: bool,
    pub(super) token: bool,
}

// --- TokenSecret ---

impl TokenSecret {
    /// Missing or outdated data.
    // upstream: pkg/controller/serviceaccount/tokens_controller.go secretUpdateNeeded
    pub(super) fn missing_data(&self, authority: &str) -> MissingTokenData {
        let encoded = k3_api::base64::encode(authority.as_bytes());
        MissingTokenData {
            authority: !authority.is_empty() && *self.data.authority != *encoded,
            namespace: !self.data.has_namespace,
            token: !self.data.has_token,
        }
    }
}

/// Claims of a legacy token.
// upstream: pkg/serviceaccount/legacy.go LegacyClaims
pub(super) fn claims(account: &ObjectMeta, secret: &str) -> Value {
    json!({
        "iss": ISSUER,
        "kubernetes.io/serviceaccount/namespace": account.namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
        "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
    })
}

fn is_present<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let text = Option::<Box<str>>::deserialize(from)?;
    Ok(text.is_some_and(|text| !text.is_empty()))
}
