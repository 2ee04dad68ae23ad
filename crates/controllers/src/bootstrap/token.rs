//! Secrets of bootstrap tokens.

use std::time::Duration;

use k3_workloads::{ObjectMeta, projected_object};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::informer::{Informer, InformerScope};
use serde::{Deserialize, Deserializer};

use crate::{context::ControllerContext, resource::SECRETS};

const KIND: &str = "bootstrap.kubernetes.io/token";
const NAMESPACE: &str = "kube-system";
const NAME: &str = "bootstrap-token-";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct BootstrapToken {
    pub(super) metadata: ObjectMeta,
    data: TokenData,
}

projected_object!(BootstrapToken);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct TokenData {
    #[serde(deserialize_with = "text")]
    token_id: String,
    #[serde(deserialize_with = "text")]
    token_secret: String,
    #[serde(deserialize_with = "text")]
    expiration: String,
    #[serde(deserialize_with = "text")]
    usage_bootstrap_signing: String,
}

/// Remaining validity of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemainingValidity {
    /// It does not expire.
    Forever,
    For(Duration),
    /// It is expired, or its expiration cannot be parsed.
    Expired,
}

// --- BootstrapToken ---

impl BootstrapToken {
    pub(super) fn informer(context: &ControllerContext) -> Informer<BootstrapToken> {
        let scope = InformerScope::default()
            .namespace(NAMESPACE)
            .fields(format!("type={KIND}"));
        context.informers.projected(&SECRETS.api_resource(), scope)
    }

    /// Remaining validity.
    pub(super) fn remaining_validity(&self, now: Timestamp) -> RemainingValidity {
        if self.data.expiration.is_empty() {
            return RemainingValidity::Forever;
        }
        let Ok(end) = self.data.expiration.parse::<Timestamp>() else {
            return RemainingValidity::Expired;
        };
        let left = Duration::try_from(end.duration_since(now)).ok();
        left.filter(|left| !left.is_zero())
            .map_or(RemainingValidity::Expired, RemainingValidity::For)
    }

    /// Token ID and secret, if the token may be used for signing.
    // upstream: pkg/controller/bootstrap/util.go validateSecretForSigning
    pub(super) fn signing_key(&self, now: Timestamp) -> Option<(&str, &str)> {
        let TokenData {
            token_id: id,
            token_secret: secret,
            ..
        } = &self.data;
        let is_id = id.len() == 6
            && id
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_named = self.metadata.name.strip_prefix(NAME) == Some(id);
        let is_good = is_id
            && is_named
            && !secret.is_empty()
            && self.remaining_validity(now) != RemainingValidity::Expired
            && self.data.usage_bootstrap_signing == "true";
        is_good.then_some((id, secret))
    }
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let encoded = Option::<Box<str>>::deserialize(from)?.unwrap_or_default();
    // An unreadable value stays unreadable: a dropped expiration would mean none.
    let bytes = k3_api::base64::decode(&encoded).unwrap_or_else(|_| encoded.as_bytes().to_vec());
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unparsable_expiration_is_expired() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let left = |expiration: &[u8]| {
            let data = json!({"expiration": k3_api::base64::encode(expiration)});
            let token: BootstrapToken = serde_json::from_value(json!({"data": data})).unwrap();
            token.remaining_validity(now)
        };
        assert_eq!(left(b""), RemainingValidity::Forever);
        assert_eq!(
            left(b"2026-01-01T00:01:00Z"),
            RemainingValidity::For(Duration::from_mins(1))
        );
        for unreadable in [&b"soon"[..], b"\xff\xfe", b"2025-12-31T23:59:59Z"] {
            assert_eq!(left(unreadable), RemainingValidity::Expired, "{unreadable:?}");
        }
    }
}
