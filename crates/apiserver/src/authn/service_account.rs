//! Service account tokens: bound tokens (KEP-1205) and legacy tokens.
//!
//! Promises: a token is valid if one of our keys signed it, for a requested audience, within its time, and as long as the
//! service account and the bound object exist with the same UIDs. A token whose account or pod is deleted is invalid at once.

use k3_api::{
    go::quote,
    strategy::{Tree, User},
    time::Time,
};
use serde_json::Value;

use super::{
    AuthenticatedUser,
    jwt::Jwt,
    key_ring::KeyRing,
    legacy_token,
    lookup::{LEEWAY, ObservedObject, TokenObjectLookup, is_deleted},
    token_cache::{self, TokenCache},
    tokens::TokenResult,
};

/// Who issues the tokens that are kept in secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const INVALIDATED: &str = "service account token has been invalidated";

/// Verifies tokens of service accounts.
pub(super) struct ServiceAccountTokenAuthenticator {
    /// Trusted issuers, besides [`LEGACY_ISSUER`].
    issuers: Vec<String>,
    keys: KeyRing,
    /// The audiences that this server is; tokens that name none are for these.
    own: Vec<String>,
    lookup: TokenObjectLookup,
    remembered: TokenCache,
}

/// A service account as named by a token's claims.
#[derive(Debug, Default)]
pub(super) struct ServiceAccountRef<'c> {
    pub(super) namespace: &'c str,
    pub(super) name: &'c str,
    pub(super) uid: &'c str,
}

// --- ServiceAccountTokenAuthenticator ---

impl ServiceAccountTokenAuthenticator {
    pub(super) fn new(
        issuers: Vec<String>,
        keys: KeyRing,
        own: Vec<String>,
        lookup: TokenObjectLookup,
    ) -> Self {
        ServiceAccountTokenAuthenticator {
            issuers,
            keys,
            own,
            lookup,
            remembered: TokenCache::default(),
        }
    }

    /// Authenticates a service account token.
    // upstream: pkg/serviceaccount/jwt.go AuthenticateToken
    pub(super) async fn find(&self, token: &str, audiences: &[String], now: Time) -> TokenResult {
        let Some(jwt) = Jwt::read(token) else {
            return Ok(None);
        };
        let is_legacy = jwt.issuer() == LEGACY_ISSUER;
        if !is_legacy && !self.issuers.iter().any(|issuer| issuer == jwt.issuer()) {
            return Ok(None);
        }
        let hash = token_cache::hash(token, audiences);
        if let Some(known) = self.remembered.get(&hash, now, &self.lookup) {
            return Ok(Some(known));
        }
        let claims = jwt.verify(&self.keys.keys())?;
        let audiences = self.audiences(&claims, audiences)?;
        let resolve_account = |seen: &mut Vec<ObservedObject>| {
            seen.clear();
            if is_legacy {
                legacy_token::user(&claims, token, &self.lookup, seen)
            } else {
                bound(&claims, now, &self.lookup, seen)
            }
        };
        let mut seen = Vec::new();
        let user = if let Ok(user) = resolve_account(&mut seen) {
            user
        } else {
            // Another server may just have made what is missing here.
            self.lookup.refresh().await;
            resolve_account(&mut seen)?
        };
        let known = AuthenticatedUser {
            expires: seconds(claims.at("exp")),
            ..AuthenticatedUser::by_token(user, audiences)
        };
        self.remembered.put(hash, &known, seen, now);
        Ok(Some(known))
    }

    /// For which of the wanted audiences the token is.
    fn audiences(&self, claims: &Value, wanted: &[String]) -> Result<Vec<String>, String> {
        let mut said: Vec<&str> = match claims.at("aud") {
            Value::String(one) => vec![one],
            _ => claims.texts("aud").collect(),
        };
        if said.is_empty() {
            said = self.own.iter().map(String::as_str).collect();
        }
        let both: Vec<String> = wanted
            .iter()
            .filter(|wanted| said.contains(&wanted.as_str()))
            .cloned()
            .collect();
        if both.is_empty() {
            let list = |texts: &[&str]| {
                let quoted: Vec<_> = texts.iter().map(|text| quote(text)).collect();
                format!("[{}]", quoted.join(" "))
            };
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                list(&said),
                list(&wanted)
            ));
        }
        Ok(both)
    }
}

/// The service account of verified claims, if it and the bound objects (pod, node, secret) still exist with the same UIDs.
// upstream: pkg/serviceaccount/claims.go Validate
fn bound(
    claims: &Value,
    now: Time,
    lookup: &TokenObjectLookup,
    seen: &mut Vec<ObservedObject>,
) -> Result<User, String> {
    check_time(claims, now)?;
    let private = claims.at("kubernetes.io");
    let reference = private.at("serviceaccount");
    let account = ServiceAccountRef {
        namespace: private.text("namespace"),
        name: reference.text("name"),
        uid: reference.text("uid"),
    };
    let ServiceAccountRef { namespace, name, uid } = account;
    let stored = lookup
        .observe("serviceaccounts", namespace, name, seen)
        .map_err(|status| status.message)?;
    let there = stored.at("metadata").text("uid");
    if there != uid {
        return Err(format!(
            "service account UID ({there}) does not match claim ({uid})"
        ));
    }
    if is_deleted(&stored, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let mut check = |plural, word, namespace, reference: &Value| -> Result<(), String> {
        let stored = lookup
            .observe(plural, namespace, reference.text("name"), seen)
            .map_err(|_| INVALIDATED.to_owned())?;
        let there = stored.at("metadata").text("uid");
        let said = reference.text("uid");
        if there != said {
            return Err(format!(
                "{word} UID ({there}) does not match service account {word} ref claim ({said})"
            ));
        }
        if is_deleted(&stored, now) {
            return Err(INVALIDATED.to_owned());
        }
        Ok(())
    };
    let mut user = account.user();
    let mut add_extra = |key: &str, value: &str| {
        if !value.is_empty() {
            let key = format!("authentication.kubernetes.io/{key}");
            user.extra.push((key, vec![value.to_owned()]));
        }
    };
    if private.has("secret") {
        check("secrets", "secret", namespace, private.at("secret"))?;
    }
    let pod = private.at("pod");
    let node = private.at("node");
    if !pod.is_null() {
        check("pods", "pod", namespace, pod)?;
    } else if !node.is_null() {
        check("nodes", "node", "", node)?;
    }
    for webhook in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        if private.has(webhook) {
            // Such tokens are for webhooks, and this server issues none.
            return Err("feature gate \"APIServerWebhookAuthenticationToken\" is disabled, but token is webhook bound"
                .to_owned());
        }
    }
    let id = claims.text("jti");
    if !id.is_empty() {
        add_extra("credential-id", &format!("JTI={id}"));
    }
    if !node.text("name").is_empty() {
        add_extra("node-name", node.text("name"));
        add_extra("node-uid", node.text("uid"));
    }
    if !pod.text("name").is_empty() && !pod.text("uid").is_empty() {
        add_extra("pod-name", pod.text("name"));
        add_extra("pod-uid", pod.text("uid"));
    }
    Ok(user)
}

// upstream: pkg/serviceaccount/claims.go Validate
fn check_time(claims: &Value, now: Time) -> Result<(), String> {
    let now = now.unix_seconds();
    let is_after = |name: &str| seconds(claims.at(name)).is_some_and(|time| time > now + LEEWAY);
    if is_after("nbf") {
        return Err("service account token is not valid yet".to_owned());
    }
    if seconds(claims.at("exp")).is_some_and(|time| time < now - LEEWAY) {
        return Err("service account token has expired".to_owned());
    }
    if is_after("iat") {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// A time in claims: a number of seconds, which may have a fraction.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large is cut to the end of time"
    )]
    value.as_i64().or_else(|| Some(value.as_f64()? as i64))
}

// --- ServiceAccountRef ---

impl ServiceAccountRef<'_> {
    /// The user that it is.
    pub(super) fn user(&self) -> User {
        let ServiceAccountRef { namespace, name, uid } = self;
        User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: (*uid).to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            extra: Vec::new(),
        }
    }
}
