//! Who a client is, and what it may do, as the API server says.
//!
//! Answers are remembered for a while: tokens for two minutes, rights for five minutes, refusals for half a minute.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{HeaderMap, header};
use k3_pki::Identity;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use ring::digest::{SHA256, digest};
use tokio::time::{self, Instant};

const TOKENS: Duration = Duration::from_mins(2);
const ALLOWED: Duration = Duration::from_mins(5);
const REFUSED: Duration = Duration::from_secs(30);
/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many answers are remembered of each sort.
const MOST: usize = 4096;

/// Asks the API server, and remembers.
pub(super) struct Access {
    client: Client,
    node: String,
    /// By the sum of the token: the tokens themselves are not kept.
    tokens: Remembered<Vec<u8>, Option<UserInfo>>,
    rights: Remembered<Right, bool>,
}

/// Something that somebody may do, or not.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Right {
    user: String,
    uid: String,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
    verb: &'static str,
    part: &'static str,
}

/// The API server did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    #[error("cannot ask the API server")]
    Api(#[from] kube::Error),
    #[error("the API server takes too long")]
    Late,
}

/// Answers, each with its time.
struct Remembered<K, V>(Mutex<HashMap<K, (Instant, V)>>);

// --- Access ---

impl Access {
    pub(super) fn new(client: Client, node: String) -> Self {
        Access {
            client,
            node,
            tokens: Remembered(Mutex::default()),
            rights: Remembered(Mutex::default()),
        }
    }

    /// Who asks: by certificate, or by token. `None` if it is nobody we know.
    pub(super) async fn authenticate(
        &self,
        certificate: Option<&Identity>,
        headers: &HeaderMap,
    ) -> Result<Option<UserInfo>, AccessError> {
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
        if let Some(known) = self.tokens.get(&key) {
            return Ok(known);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let review = asked(reviews.create(&PostParams::default(), &review)).await?;
        let status = review.status.unwrap_or_default();
        let user = if status.authenticated == Some(true) {
            status.user
        } else {
            None
        };
        self.tokens.put(key, user.clone(), TOKENS);
        Ok(user)
    }

    /// Whether somebody may do this to one of these parts of the node.
    pub(super) async fn authorize(
        &self,
        user: &UserInfo,
        verb: &'static str,
        parts: &[&'static str],
    ) -> Result<bool, AccessError> {
        for part in parts {
            if self.may(user, verb, part).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn may(
        &self,
        user: &UserInfo,
        verb: &'static str,
        part: &'static str,
    ) -> Result<bool, AccessError> {
        let right = Right {
            user: user.username.clone().unwrap_or_default(),
            uid: user.uid.clone().unwrap_or_default(),
            groups: user.groups.clone().unwrap_or_default(),
            extra: user.extra.clone().unwrap_or_default().into_iter().collect(),
            verb,
            part,
        };
        if let Some(known) = self.rights.get(&right) {
            return Ok(known);
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
                    subresource: Some(part.to_owned()),
                    name: Some(self.node.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = asked(reviews.create(&PostParams::default(), &review)).await?;
        let allowed = review.status.is_some_and(|status| status.allowed);
        self.rights
            .put(right, allowed, if allowed { ALLOWED } else { REFUSED });
        Ok(allowed)
    }
}

async fn asked<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, AccessError> {
    let answer = time::timeout(PATIENCE, call)
        .await
        .map_err(|_| AccessError::Late)?;
    Ok(answer?)
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

// --- Remembered ---

impl<K: Hash + Eq, V: Clone> Remembered<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, value) = known.get(key)?;
        (Instant::now() < *until).then(|| value.clone())
    }

    fn put(&self, key: K, value: V, lasts: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            let now = Instant::now();
            known.retain(|_, (until, _)| now < *until);
        }
        if known.len() >= MOST {
            // Who comes with thousands of tokens asks again.
            known.clear();
        }
        known.insert(key, (Instant::now() + lasts, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_after_its_scheme() {
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
    async fn answers_are_forgotten_in_time_and_never_too_many() {
        let known = Remembered(Mutex::default());
        known.put(1, "a", TOKENS);
        assert_eq!(known.get(&1), Some("a"));
        time::advance(TOKENS).await;
        assert_eq!(known.get(&1), None);
        for key in 0..2 * MOST {
            known.put(key, "b", TOKENS);
        }
        assert!(known.0.lock().unwrap().len() <= MOST);
    }
}
