//! The secrets that such tokens are.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kubecontroller::informer::{Informer, InformerScope};
use serde::{Deserialize, Deserializer};

use crate::{
    context::ControllerContext,
    objects::{Meta, object},
    resource::SECRETS,
};

const KIND: &str = "bootstrap.kubernetes.io/token";
const NAMESPACE: &str = "kube-system";
const NAME: &str = "bootstrap-token-";

/// A token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Token {
    pub(super) metadata: Meta,
    data: Data,
}

object!(Token);

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Data {
    #[serde(deserialize_with = "text")]
    token_id: String,
    #[serde(deserialize_with = "text")]
    token_secret: String,
    #[serde(deserialize_with = "text")]
    expiration: String,
    #[serde(deserialize_with = "text")]
    usage_bootstrap_signing: String,
}

/// How long a token is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// For ever.
    Ever,
    /// For so long.
    For(Duration),
    /// No longer; also if nobody can read until when.
    Nothing,
}

// --- Token ---

impl Token {
    /// All of them.
    pub(super) fn informer(context: &ControllerContext) -> Informer<Token> {
        let scope = InformerScope::default()
            .namespace(NAMESPACE)
            .fields(format!("type={KIND}"));
        context.informers.projected(&SECRETS.api_resource(), scope)
    }

    /// How long it is good.
    pub(super) fn left(&self, now: Timestamp) -> Left {
        if self.data.expiration.is_empty() {
            return Left::Ever;
        }
        let Ok(end) = self.data.expiration.parse::<Timestamp>() else {
            return Left::Nothing;
        };
        let left = Duration::try_from(end.duration_since(now)).ok();
        left.filter(|left| !left.is_zero())
            .map_or(Left::Nothing, Left::For)
    }

    /// Its name and its secret, if it may sign.
    pub(super) fn signs(&self, now: Timestamp) -> Option<(&str, &str)> {
        let Data {
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
            && self.left(now) != Left::Nothing
            && self.data.usage_bootstrap_signing == "true";
        is_good.then_some((id, secret))
    }
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let encoded = Option::<Box<str>>::deserialize(from)?.unwrap_or_default();
    // What is no text stays something that nobody can read: an end that is lost would be none.
    let bytes = k3_api::base64::decode(&encoded).unwrap_or_else(|_| encoded.as_bytes().to_vec());
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_end_that_nobody_can_read_is_an_end() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let left = |expiration: &[u8]| {
            let data = json!({"expiration": k3_api::base64::encode(expiration)});
            let token: Token = serde_json::from_value(json!({"data": data})).unwrap();
            token.left(now)
        };
        assert_eq!(left(b""), Left::Ever);
        assert_eq!(left(b"2026-01-01T00:01:00Z"), Left::For(Duration::from_mins(1)));
        for unreadable in [&b"soon"[..], b"\xff\xfe", b"2025-12-31T23:59:59Z"] {
            assert_eq!(left(unreadable), Left::Nothing, "{unreadable:?}");
        }
    }
}
