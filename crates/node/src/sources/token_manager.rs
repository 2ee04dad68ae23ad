//! Requests and caches service account tokens of pods.
// upstream: pkg/kubelet/token/token_manager.go Manager

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, api::PostParams};
use kubecontroller::{Clock, writer::error_message};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::{ObjectSourceError, ServiceAccountToken};
use crate::PodIdentity;

/// A token is refreshed at this age, even if its lifetime is longer.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(24);
/// Refreshes are up to this much early, at random, so that pods that were created together do not refresh together.
const MAX_JITTER_SECONDS: f64 = 10.0;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Cached tokens.
pub(super) struct TokenManager {
    client: kube::Client,
    clock: Clock,
    /// Returns a random number from 0 to 1.
    random: Box<dyn Fn() -> f64 + Send + Sync>,
    tokens: Mutex<BTreeMap<TokenKey, TokenSlot>>,
}

/// The parameters of a token request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TokenKey {
    pub(super) pod: PodIdentity,
    pub(super) account: String,
    pub(super) audience: Option<String>,
    pub(super) seconds: i64,
}

/// Locked during a request (single flight): concurrent readers share one request.
type TokenSlot = Arc<tokio::sync::Mutex<Option<CachedToken>>>;

struct CachedToken {
    token: ServiceAccountToken,
    /// Lifetime that the server granted. It may be shorter than requested.
    lifetime: SignedDuration,
}

/// Why a token cannot be requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestTokenError {
    /// The API server did not respond in time.
    #[error("context deadline exceeded")]
    Timeout,
    /// The API server rejected the request, or cannot be reached.
    #[error("{}", error_message(.0))]
    Request(#[source] kube::Error),
    /// The response has no status with a token.
    #[error("the response contains no token")]
    NoToken,
}

// --- TokenManager ---

impl TokenManager {
    pub(super) fn new(
        client: kube::Client,
        clock: Clock,
        random: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        TokenManager {
            client,
            clock,
            random: Box::new(random),
            tokens: Mutex::default(),
        }
    }

    /// Returns a token that has not expired, from the cache or the API server.
    // upstream: pkg/kubelet/token/token_manager.go GetServiceAccountToken
    pub(super) async fn get(&self, key: TokenKey) -> Result<ServiceAccountToken, ObjectSourceError> {
        let slot = Arc::clone(self.tokens().entry(key.clone()).or_default());
        let mut cached = slot.lock().await;
        let now = self.clock.now();
        if let Some(cached) = cached.as_ref()
            && !cached.requires_refresh(now, (self.random)())
        {
            return Ok(cached.token.clone());
        }
        match self.request_token(&key).await {
            Ok(new) => Ok(cached.insert(new).token.clone()),
            Err(error) => match cached.as_ref() {
                None => Err(ObjectSourceError::TokenRequest(error)),
                Some(old) if old.token.expires <= now => {
                    let account = format!("{}/{}", key.pod.namespace, key.account);
                    Err(ObjectSourceError::TokenExpired {
                        account,
                        source: error,
                    })
                }
                Some(old) => {
                    tracing::warn!(
                        pod = %key.pod,
                        account = key.account,
                        reason = %error,
                        "failed to refresh a service account token; using the old one until it expires"
                    );
                    Ok(old.token.clone())
                }
            },
        }
    }

    /// Drops the tokens of a pod.
    // upstream: pkg/kubelet/token/token_manager.go DeleteServiceAccountToken
    pub(super) fn remove_pod(&self, uid: &str) {
        self.tokens().retain(|key, _| key.pod.uid != uid);
    }

    async fn request_token(&self, key: &TokenKey) -> Result<CachedToken, RequestTokenError> {
        let pod = &key.pod;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &pod.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: key.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: Some(key.seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.name.clone()),
                    uid: Some(pod.uid.clone()),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let response = timeout(
            REQUEST_TIMEOUT,
            accounts.create_token_request(&key.account, &params, &request),
        );
        let response = response.await.map_err(|_| RequestTokenError::Timeout)?;
        let response = response.map_err(RequestTokenError::Request)?;
        let lifetime = response.spec.and_then(|spec| spec.expiration_seconds);
        let token = response.status.and_then(|status| {
            Some(ServiceAccountToken {
                token: status.token?,
                expires: status.expiration_timestamp?.0,
            })
        });
        Ok(CachedToken {
            token: token.ok_or(RequestTokenError::NoToken)?,
            lifetime: SignedDuration::from_secs(lifetime.unwrap_or(key.seconds)),
        })
    }

    fn tokens(&self) -> MutexGuard<'_, BTreeMap<TokenKey, TokenSlot>> {
        self.tokens.lock()
    }
}

// --- CachedToken ---

impl CachedToken {
    /// Whether at most 20 % of the lifetime is left, or the token is a day old. `random`, from 0 to 1, adds the jitter.
    // upstream: pkg/kubelet/token/token_manager.go requiresRefresh
    fn requires_refresh(&self, now: Timestamp, random: f64) -> bool {
        let jitter = SignedDuration::from_secs_f64(random * MAX_JITTER_SECONDS);
        let issued = self.token.expires - self.lifetime;
        let last_fifth = self.token.expires - self.lifetime / 5;
        now > issued + MAX_AGE - jitter || now > last_fifth - jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a token with this lifetime requires a refresh at this age in seconds, without jitter.
    fn requires_refresh(lifetime: i64, age: i64) -> bool {
        let issued = Timestamp::from_second(1_000_000).unwrap();
        let cached = CachedToken {
            token: ServiceAccountToken {
                token: String::new(),
                expires: issued + SignedDuration::from_secs(lifetime),
            },
            lifetime: SignedDuration::from_secs(lifetime),
        };
        cached.requires_refresh(issued + SignedDuration::from_secs(age), 0.0)
    }

    #[test]
    fn refreshes_in_last_fifth_of_lifetime_or_after_a_day() {
        assert!(!requires_refresh(3600, 0));
        assert!(!requires_refresh(3600, 2880));
        assert!(requires_refresh(3600, 2881));
        let year = 365 * 86_400;
        assert!(!requires_refresh(year, 86_400));
        assert!(requires_refresh(year, 86_401));
    }
}
