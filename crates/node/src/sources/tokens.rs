//! Tokens that were asked for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    jiff::{SignedDuration, Timestamp},
};
use kube::{Api, api::PostParams};
use kubecontroller::Clock;
use tokio::time::timeout;

use super::{SourceError, Token};
use crate::PodIdentity;

/// A token is renewed when it is as old as this, however long it lives.
const OLDEST: SignedDuration = SignedDuration::from_hours(24);
/// Renewals are spread over this time, so that pods that came together do not renew together.
const SPREAD: f64 = 10.0;
/// How long an answer is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// Tokens by what was asked for.
pub(super) struct Tokens {
    client: kube::Client,
    clock: Clock,
    /// From 0 to 1.
    random: Box<dyn Fn() -> f64 + Send + Sync>,
    known: Mutex<BTreeMap<Asked, Slot>>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Asked {
    pub(super) pod: PodIdentity,
    pub(super) account: String,
    pub(super) audience: Option<String>,
    pub(super) seconds: i64,
}

/// Held while the API is asked, so that it is asked once.
type Slot = Arc<tokio::sync::Mutex<Option<Known>>>;

struct Known {
    token: Token,
    /// How long it lived when it was made; the server may give less than was asked for.
    life: SignedDuration,
}

// --- Tokens ---

impl Tokens {
    pub(super) fn new(
        client: kube::Client,
        clock: Clock,
        random: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        Tokens {
            client,
            clock,
            random: Box::new(random),
            known: Mutex::default(),
        }
    }

    /// A token that has not ended.
    pub(super) async fn get(&self, asked: Asked) -> Result<Token, SourceError> {
        let slot = Arc::clone(self.known().entry(asked.clone()).or_default());
        let mut known = slot.lock().await;
        let now = self.clock.now();
        if let Some(known) = known.as_ref()
            && !known.is_due(now, (self.random)())
        {
            return Ok(known.token.clone());
        }
        match self.request(&asked).await {
            Ok(new) => Ok(known.insert(new).token.clone()),
            Err(reason) => match known.as_ref() {
                None => Err(SourceError::Token(reason)),
                Some(old) if old.token.expires <= now => {
                    let account = format!("{}/{}", asked.pod.namespace, asked.account);
                    Err(SourceError::TokenExpired { account, reason })
                }
                Some(old) => {
                    tracing::warn!(pod = %asked.pod, account = asked.account, reason, "cannot renew a token; the old one goes on");
                    Ok(old.token.clone())
                }
            },
        }
    }

    /// Drops those of a pod.
    pub(super) fn forget(&self, uid: &str) {
        self.known().retain(|asked, _| asked.pod.uid != uid);
    }

    async fn request(&self, asked: &Asked) -> Result<Known, String> {
        let pod = &asked.pod;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &pod.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: asked.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: Some(asked.seconds),
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
        let answer = timeout(
            LIMIT,
            accounts.create_token_request(&asked.account, &params, &request),
        );
        let answer = answer.await.map_err(|_| "context deadline exceeded".to_owned())?;
        let answer = answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        })?;
        let given = answer.spec.and_then(|spec| spec.expiration_seconds);
        let made = answer.status.and_then(|status| {
            Some(Token {
                text: status.token?,
                expires: status.expiration_timestamp?.0,
            })
        });
        Ok(Known {
            token: made.ok_or_else(|| "the answer has no token".to_owned())?,
            life: SignedDuration::from_secs(given.unwrap_or(asked.seconds)),
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Asked, Slot>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- Known ---

impl Known {
    /// Whether it is time for another one: a fifth of its life is left, or it is a day old. `random` brings that forward a bit.
    fn is_due(&self, now: Timestamp, random: f64) -> bool {
        let early = SignedDuration::from_secs_f64(random * SPREAD);
        let begun = self.token.expires - self.life;
        let last_fifth = self.token.expires - self.life / 5;
        now > begun + OLDEST - early || now > last_fifth - early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a token of `life` seconds is due at an age, without the spread.
    fn due(life: i64, age: i64) -> bool {
        let begun = Timestamp::from_second(1_000_000).unwrap();
        let known = Known {
            token: Token {
                text: String::new(),
                expires: begun + SignedDuration::from_secs(life),
            },
            life: SignedDuration::from_secs(life),
        };
        known.is_due(begun + SignedDuration::from_secs(age), 0.0)
    }

    #[test]
    fn a_token_is_due_in_its_last_fifth_or_after_a_day() {
        assert!(!due(3600, 0));
        assert!(!due(3600, 2880));
        assert!(due(3600, 2881));
        let year = 365 * 86_400;
        assert!(!due(year, 86_400));
        assert!(due(year, 86_401));
    }
}
