//! Secrets that hold tokens of service accounts: what is kept of them, and what they should hold.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::objects::{Meta, object};

/// The type of such secrets.
pub(super) const KIND: &str = "kubernetes.io/service-account-token";
/// Names the account that a secret is for.
pub(super) const ACCOUNT: &str = "kubernetes.io/service-account.name";
/// Says which one of that name.
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Who issues such tokens.
const ISSUER: &str = "kubernetes/serviceaccount";

/// A secret. The token itself is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Secret {
    pub(super) metadata: Meta,
    data: Data,
}

object!(Secret);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Data {
    /// The certificate of the authority, in base64.
    #[serde(rename = "ca.crt")]
    authority: Box<str>,
    #[serde(rename = "namespace", deserialize_with = "is_there")]
    has_namespace: bool,
    #[serde(rename = "token", deserialize_with = "is_there")]
    has_token: bool,
}

/// What a secret should hold and does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanting {
    pub(super) authority: bool,
    pub(super) namespace: bool,
    pub(super) token: bool,
}

// --- Secret ---

impl Secret {
    /// What it does not hold and should, where this is the authority.
    pub(super) fn wanting(&self, authority: &str) -> Wanting {
        let encoded = k3_api::base64::encode(authority.as_bytes());
        Wanting {
            authority: !authority.is_empty() && *self.data.authority != *encoded,
            namespace: !self.data.has_namespace,
            token: !self.data.has_token,
        }
    }
}

/// What a token in a secret says of its account.
pub(super) fn claims(account: &Meta, secret: &str) -> Value {
    json!({
        "iss": ISSUER,
        "kubernetes.io/serviceaccount/namespace": account.namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
        "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
    })
}

fn is_there<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let text = Option::<Box<str>>::deserialize(from)?;
    Ok(text.is_some_and(|text| !text.is_empty()))
}
