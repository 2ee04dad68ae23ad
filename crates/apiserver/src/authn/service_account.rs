//! Service account tokens: bound tokens (KEP-1205) and legacy tokens.
//!
//! Promises: a token is valid if one of our keys signed it, for a requested audience, within its time, and as long as the
//! service account and the bound object exist with the same UIDs. A token whose account or pod is deleted is invalid at once.

use k3_api::{
    go::quote,
    status::Status,
    strategy::{Tree, User},
    time::Time,
};
use serde_json::Value;

use super::{
    AuthenticatedUser,
    jwt::{Jwt, JwtError},
    key_ring::KeyRing,
    legacy_token::{self, LegacyClaimsError},
    lookup::{LEEWAY, ObservedObject, TokenObjectLookup, is_deleted},
    token_cache::{self, TokenCache},
    tokens::TokenResult,
};

/// The issuer of legacy tokens, which are stored in Secrets.
pub(super) const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Verifies tokens of service accounts.
// upstream: pkg/serviceaccount/jwt.go JWTTokenAuthenticator
pub(super) struct ServiceAccountTokenAuthenticator {
    /// Trusted issuers, besides [`LEGACY_ISSUER`].
    issuers: Vec<String>,
    keys: KeyRing,
    /// The audiences of this server. A token without `aud` claim is valid for all of them.
    implicit_audiences: Vec<String>,
    lookup: TokenObjectLookup,
    cache: TokenCache,
}

/// A service account as named by a token's claims.
#[derive(Debug, Default)]
pub(super) struct ServiceAccountRef<'c> {
    pub(super) namespace: &'c str,
    pub(super) name: &'c str,
    pub(super) uid: &'c str,
}

/// Why a token of a service account is not valid, in upstream's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceAccountTokenError {
    #[error(transparent)]
    Signature(#[from] JwtError),
    /// Both as lists.
    #[error("token audiences {token} is invalid for the target audiences {target}")]
    Audience { token: String, target: String },
    #[error(transparent)]
    Claims(#[from] BoundClaimsError),
    #[error(transparent)]
    LegacyClaims(#[from] LegacyClaimsError),
}

/// Why the claims of a bound token are not valid.
#[derive(Debug, thiserror::Error)]
pub(super) enum BoundClaimsError {
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    /// The service account cannot be had.
    #[error(transparent)]
    Account(Status),
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    AccountUid { found: String, claimed: String },
    /// Namespace and name.
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    /// The object that it is bound to was deleted.
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")]
    ObjectUid {
        kind: &'static str,
        found: String,
        claimed: String,
    },
    /// Such tokens are for webhooks, and this server issues none.
    #[error("feature gate \"APIServerWebhookAuthenticationToken\" is disabled, but token is webhook bound")]
    WebhookBound,
}

// --- ServiceAccountTokenAuthenticator ---

impl ServiceAccountTokenAuthenticator {
    pub(super) fn new(
        issuers: Vec<String>,
        keys: KeyRing,
        implicit_audiences: Vec<String>,
        lookup: TokenObjectLookup,
    ) -> Self {
        ServiceAccountTokenAuthenticator {
            issuers,
            keys,
            implicit_audiences,
            lookup,
            cache: TokenCache::default(),
        }
    }

    /// Authenticates a service account token.
    // upstream: pkg/serviceaccount/jwt.go AuthenticateToken
    pub(super) async fn authenticate_token(
        &self,
        token: &str,
        audiences: &[String],
        now: Time,
    ) -> TokenResult {
        let Some(jwt) = Jwt::read(token) else {
            return Ok(None);
        };
        let is_legacy = jwt.issuer() == LEGACY_ISSUER;
        if !is_legacy && !self.issuers.iter().any(|issuer| issuer == jwt.issuer()) {
            return Ok(None);
        }
        let hash = token_cache::hash(token, audiences);
        if let Some(user) = self.cache.get(&hash, now, &self.lookup) {
            return Ok(Some(user));
        }
        let claims = jwt.verify(&self.keys.keys())?;
        let audiences = self.intersect_audiences(&claims, audiences)?;
        let validate_claims = |observed: &mut Vec<ObservedObject>| -> Result<User, ServiceAccountTokenError> {
            observed.clear();
            Ok(if is_legacy {
                legacy_token::validate_claims(&claims, token, &self.lookup, observed)?
            } else {
                validate_bound_claims(&claims, now, &self.lookup, observed)?
            })
        };
        let mut observed = Vec::new();
        let user = if let Ok(user) = validate_claims(&mut observed) {
            user
        } else {
            // The watch cache of this server may not have an account or pod yet that was created through another server.
            self.lookup.refresh().await;
            validate_claims(&mut observed)?
        };
        let authenticated = AuthenticatedUser {
            expires: seconds(claims.at("exp")),
            ..AuthenticatedUser::by_token(user, audiences)
        };
        self.cache.put(hash, &authenticated, observed, now);
        Ok(Some(authenticated))
    }

    /// Returns the target audiences that the token is for, or an error if it is for none of them.
    fn intersect_audiences(
        &self,
        claims: &Value,
        target_audiences: &[String],
    ) -> Result<Vec<String>, ServiceAccountTokenError> {
        let mut token_audiences: Vec<&str> = match claims.at("aud") {
            Value::String(one) => vec![one],
            _ => claims.texts("aud").collect(),
        };
        if token_audiences.is_empty() {
            token_audiences = self.implicit_audiences.iter().map(String::as_str).collect();
        }
        let intersection: Vec<String> = target_audiences
            .iter()
            .filter(|audience| token_audiences.contains(&audience.as_str()))
            .cloned()
            .collect();
        if intersection.is_empty() {
            let list = |texts: &[&str]| {
                let quoted: Vec<_> = texts.iter().map(|text| quote(text)).collect();
                format!("[{}]", quoted.join(" "))
            };
            let target_audiences: Vec<_> = target_audiences.iter().map(String::as_str).collect();
            return Err(ServiceAccountTokenError::Audience {
                token: list(&token_audiences),
                target: list(&target_audiences),
            });
        }
        Ok(intersection)
    }
}

/// Returns the user of verified claims, if the service account and the bound objects (pod, node, secret) still exist with the
/// same UIDs. Upstream calls the claims under `kubernetes.io` the private claims (`PrivateClaims`).
// upstream: pkg/serviceaccount/claims.go Validate, privateClaims
fn validate_bound_claims(
    claims: &Value,
    now: Time,
    lookup: &TokenObjectLookup,
    observed: &mut Vec<ObservedObject>,
) -> Result<User, BoundClaimsError> {
    validate_times(claims, now)?;
    let private_claims = claims.at("kubernetes.io");
    let reference = private_claims.at("serviceaccount");
    let account = ServiceAccountRef {
        namespace: private_claims.text("namespace"),
        name: reference.text("name"),
        uid: reference.text("uid"),
    };
    let ServiceAccountRef { namespace, name, uid } = account;
    let service_account = lookup
        .observe("serviceaccounts", namespace, name, observed)
        .map_err(BoundClaimsError::Account)?;
    let account_uid = service_account.at("metadata").text("uid");
    if account_uid != uid {
        return Err(BoundClaimsError::AccountUid {
            found: account_uid.to_owned(),
            claimed: uid.to_owned(),
        });
    }
    if is_deleted(&service_account, now) {
        return Err(BoundClaimsError::AccountDeleted(format!("{namespace}/{name}")));
    }
    let mut check_bound_object =
        |plural, kind, namespace, reference: &Value| -> Result<(), BoundClaimsError> {
            let bound_object = lookup
                .observe(plural, namespace, reference.text("name"), observed)
                .map_err(|_| BoundClaimsError::Invalidated)?;
            let object_uid = bound_object.at("metadata").text("uid");
            let claimed_uid = reference.text("uid");
            if object_uid != claimed_uid {
                return Err(BoundClaimsError::ObjectUid {
                    kind,
                    found: object_uid.to_owned(),
                    claimed: claimed_uid.to_owned(),
                });
            }
            if is_deleted(&bound_object, now) {
                return Err(BoundClaimsError::Invalidated);
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
    if private_claims.has("secret") {
        check_bound_object("secrets", "secret", namespace, private_claims.at("secret"))?;
    }
    let pod = private_claims.at("pod");
    let node = private_claims.at("node");
    if !pod.is_null() {
        check_bound_object("pods", "pod", namespace, pod)?;
    } else if !node.is_null() {
        check_bound_object("nodes", "node", "", node)?;
    }
    for webhook in ["validatingwebhookconfiguration", "mutatingwebhookconfiguration"] {
        if private_claims.has(webhook) {
            return Err(BoundClaimsError::WebhookBound);
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
fn validate_times(claims: &Value, now: Time) -> Result<(), BoundClaimsError> {
    let now = now.unix_seconds();
    let is_after = |name: &str| seconds(claims.at(name)).is_some_and(|time| time > now + LEEWAY);
    if is_after("nbf") {
        return Err(BoundClaimsError::NotYetValid);
    }
    if seconds(claims.at("exp")).is_some_and(|time| time < now - LEEWAY) {
        return Err(BoundClaimsError::Expired);
    }
    if is_after("iat") {
        return Err(BoundClaimsError::IssuedInFuture);
    }
    Ok(())
}

/// A time in claims: a number of seconds, which may have a fraction.
fn seconds(value: &Value) -> Option<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time that is too large saturates"
    )]
    value.as_i64().or_else(|| Some(value.as_f64()? as i64))
}

// --- ServiceAccountRef ---

impl ServiceAccountRef<'_> {
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
