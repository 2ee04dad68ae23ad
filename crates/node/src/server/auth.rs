//! Authentication and authorization of requests by the API server: client certificate or `TokenReview`, and `SubjectAccessReview`.
//!
//! Results are cached: tokens for two minutes, permissions for five minutes, denials for half a minute.
// upstream: pkg/kubelet/server/auth.go KubeletAuth
// upstream: pkg/kubelet/apis/config/v1beta1/defaults.go SetDefaults_KubeletConfiguration; the cache TTLs of webhook authentication

use std::{collections::HashMap, hash::Hash, time::Duration};

use http::{HeaderMap, header};
use k3_pki::Identity;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tokio::time::{self, Instant};

const TOKEN_TTL: Duration = Duration::from_mins(2);
const ALLOWED_TTL: Duration = Duration::from_mins(5);
const DENIED_TTL: Duration = Duration::from_secs(30);
/// Timeout of a review.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of entries per cache.
const MAX_ENTRIES: usize = 4096;

/// Authenticates and authorizes requests with reviews of the API server.
pub(super) struct KubeletAuth {
    client: Client,
    node: String,
    /// Users by the SHA-256 digest of their token: the tokens themselves are not stored.
    tokens: ExpiringCache<Vec<u8>, Option<UserInfo>>,
    decisions: ExpiringCache<AuthorizationKey, bool>,
}

/// User, verb and subresource of an authorization decision.
#[derive(Clone, PartialEq, Eq, Hash)]
struct AuthorizationKey {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
    verb: &'static str,
    subresource: &'static str,
}

/// A review failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AuthError {
    #[error("API request failed")]
    Api(#[from] kube::Error),
    #[error("the API server did not respond in time")]
    Timeout,
}

/// Values with an expiry time.
struct ExpiringCache<K, V>(Mutex<HashMap<K, (Instant, V)>>);

// --- KubeletAuth ---

impl KubeletAuth {
    pub(super) fn new(client: Client, node: String) -> Self {
        KubeletAuth {
            client,
            node,
            tokens: ExpiringCache(Mutex::default()),
            decisions: ExpiringCache(Mutex::default()),
        }
    }

    /// The user of a request, by certificate or bearer token; `None` if it is not authenticated.
    pub(super) async fn authenticate(
        &self,
        certificate: Option<&Identity>,
        headers: &HeaderMap,
    ) -> Result<Option<UserInfo>, AuthError> {
        if let Some(identity) = certificate {
            let mut groups = identity.organizations.clone();
            groups.push("system:authenticated".to_owned());
            return Ok(Some(UserInfo {
                username: Some(identity.common_name.clone()),
                uid: identity.uids.first().cloned(),
                groups: Some(groups),
                ..UserInfo::default()
            }));
        }
        let Some(token) = bearer(headers) else {
            return Ok(None);
        };
        let key = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(cached) = self.tokens.get(&key) {
            return Ok(cached);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = with_review_timeout(reviews.create(&PostParams::default(), &review)).await?;
        let status = review.status.unwrap_or_default();
        let user = if status.authenticated == Some(true) {
            status.user
        } else {
            None
        };
        self.tokens.insert(key, user.clone(), TOKEN_TTL);
        Ok(user)
    }

    /// Whether a user may access one of the subresources of the node.
    pub(super) async fn authorize(
        &self,
        user: &UserInfo,
        verb: &'static str,
        subresources: &[&'static str],
    ) -> Result<bool, AuthError> {
        for subresource in subresources {
            if self.is_allowed(user, verb, subresource).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn is_allowed(
        &self,
        user: &UserInfo,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, AuthError> {
        let key = AuthorizationKey {
            user: user.username.clone().unwrap_or_default(),
            uid: user.uid.clone().unwrap_or_default(),
            groups: user.groups.clone().unwrap_or_default(),
            extra: user.extra.clone().unwrap_or_default().into_iter().collect(),
            verb,
            subresource,
        };
        if let Some(cached) = self.decisions.get(&key) {
            return Ok(cached);
        }
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                uid: user.uid.clone(),
                groups: user.groups.clone(),
                extra: user.extra.clone(),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    version: Some("v1".to_owned()),
                    resource: Some("nodes".to_owned()),
                    subresource: Some(subresource.to_owned()),
                    name: Some(self.node.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = with_review_timeout(reviews.create(&PostParams::default(), &review)).await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        self.decisions
            .insert(key, allowed, if allowed { ALLOWED_TTL } else { DENIED_TTL });
        Ok(allowed)
    }
}

async fn with_review_timeout<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, AuthError> {
    let result = time::timeout(REVIEW_TIMEOUT, call)
        .await
        .map_err(|_| AuthError::Timeout)?;
    Ok(result?)
}

/// The bearer token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

// --- ExpiringCache ---

impl<K: Hash + Eq, V: Clone> ExpiringCache<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let entries = self.0.lock();
        let (until, value) = entries.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn insert(&self, key: K, value: V, ttl: Duration) {
        let mut entries = self.0.lock();
        if entries.len() >= MAX_ENTRIES {
            let now = Instant::now();
            entries.retain(|_, (until, _)| now < *until);
        }
        if entries.len() >= MAX_ENTRIES {
            // A flood of tokens must not exhaust memory; the other clients are reviewed again.
            entries.clear();
        }
        entries.insert(key, (Instant::now() + ttl, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_bearer_token() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("Bearer  ", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers), token, "{value}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cache_expires_and_is_bounded() {
        let cache = ExpiringCache(Mutex::default());
        cache.insert(1, "a", TOKEN_TTL);
        assert_eq!(cache.get(&1), Some("a"));
        time::advance(TOKEN_TTL).await;
        assert_eq!(cache.get(&1), None);
        for key in 0..2 * MAX_ENTRIES {
            cache.insert(key, "b", TOKEN_TTL);
        }
        assert!(cache.0.lock().len() <= MAX_ENTRIES);
    }
}
