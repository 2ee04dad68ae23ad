//! Short-lived tokens for people: `k3t-<id>.<secret>`, each backed by a secret in `kube-system`.
//!
//! Promises: the secret holds a hash, never the token, so reading all secrets reveals no token. Only `system:masters` may write
//! such secrets, because they can authenticate as any user. An expired token is rejected and its secret deleted.

use std::time::Duration;

use k3_api::{
    base64,
    strategy::{Tree, User},
    time::Time,
};
use ring::{
    digest::{SHA256, digest},
    rand::{SecureRandom, SystemRandom},
};
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::{AuthenticatedUser, bootstrap_token::text, lookup::TokenObjectLookup, x509::CREDENTIAL_ID};

/// The type of the secrets.
const TYPE: &str = "k3/ephemeral-token";
const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "k3t-";
const NAME_PREFIX: &str = "ephemeral-token-";
const ID_LETTERS: usize = 10;
const SECRET_BYTES: usize = 32;

const HASH: &str = "token-sha256";
const USER: &str = "user";
const GROUPS: &str = "groups";
const EXPIRATION: &str = "expiration";

/// A token for a user, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EphemeralToken {
    /// By what it is called when it is to be revoked.
    pub id: String,
    /// Whom it makes of its bearer.
    pub user: String,
    /// Their groups.
    pub groups: Vec<String>,
    /// When it ends.
    pub expires: Time,
    hash: Vec<u8>,
}

/// Why a Secret is not a valid ephemeral token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ephemeral token: {0}")]
pub struct BadEphemeralToken(&'static str);

// --- EphemeralToken ---

impl EphemeralToken {
    /// Makes a token, and the text that its bearer shows. The text is nowhere else.
    pub fn issue(
        user: &str,
        groups: &[String],
        life: Duration,
        now: std::time::SystemTime,
    ) -> (Self, String) {
        let random = SystemRandom::new();
        let mut secret = [0; SECRET_BYTES];
        random.fill(&mut secret).expect("the machine gives random bytes");
        let id = random_id(&random);
        let secret = base64::encode_url(&secret);
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default() + life;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let token = EphemeralToken {
            user: user.to_owned(),
            groups: groups.to_vec(),
            expires: Time::from_unix(seconds, 0),
            hash: hash(&secret),
            id,
        };
        let text = format!("{PREFIX}{}.{secret}", token.id);
        (token, text)
    }

    /// The secret by which the cluster knows it.
    pub fn to_secret(&self) -> Value {
        let bytes = |text: &str| base64::encode(text.as_bytes());
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": Self::secret_name(&self.id), "namespace": NAMESPACE},
            "type": TYPE,
            "immutable": true,
            "data": {
                HASH: base64::encode(&self.hash),
                USER: bytes(&self.user),
                GROUPS: bytes(&self.groups.join("\n")),
                EXPIRATION: bytes(&self.expires.to_string()),
            },
        })
    }

    /// The name of the Secret of an ephemeral token.
    pub fn secret_name(id: &str) -> String {
        format!("{NAME_PREFIX}{id}")
    }

    /// Where such secrets are, as a path of the API, all of them and no others.
    pub fn secrets_path() -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/secrets")
    }

    /// How a list of secrets is narrowed to these.
    pub fn selector() -> String {
        format!("type={TYPE}")
    }

    /// Whether a Secret is meant to be an ephemeral token, valid or not.
    pub(crate) fn is(secret: &Value) -> bool {
        secret.text("type") == TYPE
    }

    /// Reads a secret of this sort.
    pub fn read(secret: &Value) -> Result<Self, BadEphemeralToken> {
        let metadata = secret.at("metadata");
        let id = metadata
            .text("name")
            .strip_prefix(NAME_PREFIX)
            .unwrap_or_default();
        if !Self::is(secret) || metadata.text("namespace") != NAMESPACE || !is_id(id) {
            return Err(BadEphemeralToken(
                "it must be called ephemeral-token-<id>, in kube-system, with an id of 10 small letters or digits",
            ));
        }
        let hash = base64::decode(secret.at("data").text(HASH)).ok();
        let hash = hash.filter(|hash| hash.len() == SHA256.output_len());
        let hash = hash.ok_or(BadEphemeralToken(
            "token-sha256 must be the SHA-256 of the secret half",
        ))?;
        let user = text(secret, USER).filter(|user| !user.is_empty());
        let user = user.ok_or(BadEphemeralToken("user must be the name of a user"))?;
        let expires = text(secret, EXPIRATION).and_then(|text| Time::parse(&text).ok());
        let expires = expires.ok_or(BadEphemeralToken(
            "expiration must be a time, as in 2030-01-02T03:04:05Z",
        ))?;
        let groups = text(secret, GROUPS).ok_or(BadEphemeralToken("groups must be lines of text"))?;
        let groups = groups.lines().map(str::to_owned).collect();
        Ok(EphemeralToken {
            id: id.to_owned(),
            user,
            groups,
            expires,
            hash,
        })
    }

    /// The remaining lifetime of the Secret; `None` if it is no valid ephemeral token.
    pub(crate) fn life(secret: &Value, now: Time) -> Option<Duration> {
        if !Self::is(secret) {
            return None;
        }
        let left = Self::read(secret).ok()?.expires.since(now).nanos();
        // One that has expired has no time left.
        Some(Duration::from_nanos(u64::try_from(left).unwrap_or(0)))
    }
}

/// Authenticates an ephemeral token.
pub(super) fn authenticate_token(
    token: &str,
    lookup: &TokenObjectLookup,
    now: Time,
) -> Option<AuthenticatedUser> {
    let (id, secret) = token.strip_prefix(PREFIX)?.split_once('.')?;
    if !is_id(id) {
        return None;
    }
    let stored = lookup
        .get("secrets", NAMESPACE, &EphemeralToken::secret_name(id))
        .ok()?
        .tree();
    let found = EphemeralToken::read(&stored).ok()?;
    let is_it = bool::from(found.hash.ct_eq(&hash(secret)));
    if !is_it || found.expires <= now || stored.at("metadata").has("deletionTimestamp") {
        return None;
    }
    let user = User {
        name: found.user,
        groups: found.groups,
        extra: vec![(CREDENTIAL_ID.to_owned(), vec![format!("K3TOKEN={id}")])],
        ..User::default()
    };
    Some(AuthenticatedUser {
        expires: Some(found.expires.unix_seconds()),
        ..AuthenticatedUser::by_token(user, Vec::new())
    })
}

fn hash(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}

fn is_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() == ID_LETTERS && text.bytes().all(is_plain)
}

fn random_id(random: &SystemRandom) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; ID_LETTERS];
    random.fill(&mut bytes).expect("the machine gives random bytes");
    bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte % 32)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn issued() -> (EphemeralToken, String) {
        let groups = ["devs".to_owned(), "qa".to_owned()];
        EphemeralToken::issue("alice", &groups, Duration::from_mins(1), UNIX_EPOCH)
    }

    #[test]
    fn secret_round_trips_without_token() {
        let (token, text) = issued();
        let secret = token.to_secret();
        assert_eq!(EphemeralToken::read(&secret), Ok(token.clone()));
        assert_eq!(token.expires.to_string(), "1970-01-01T00:01:00Z");
        let half = text.split_once('.').unwrap().1;
        let everything = secret.to_string();
        assert!(!everything.contains(half));
        assert!(!everything.contains(&base64::encode(half.as_bytes())));
        assert_ne!(issued().1, text);
    }

    #[test]
    fn rejects_malformed_secret() {
        let good = issued().0.to_secret();
        for (way, value) in [
            ("/type", json!("Opaque")),
            ("/metadata/namespace", json!("default")),
            ("/metadata/name", json!("ephemeral-token-x")),
            ("/data/token-sha256", json!("")),
            ("/data/user", json!("")),
            ("/data/expiration", json!("eHh4")),
        ] {
            let mut secret = good.clone();
            *secret.pointer_mut(way).unwrap() = value;
            assert!(EphemeralToken::read(&secret).is_err(), "{way}");
        }
    }

    #[test]
    fn secret_lives_until_expiration() {
        let secret = issued().0.to_secret();
        let life = |seconds| EphemeralToken::life(&secret, Time::from_unix(seconds, 0));
        assert_eq!(life(50), Some(Duration::from_secs(10)));
        assert_eq!(life(70), Some(Duration::ZERO));
        assert_eq!(
            EphemeralToken::life(&json!({"type": "Opaque"}), Time::from_unix(0, 0)),
            None
        );
    }
}
