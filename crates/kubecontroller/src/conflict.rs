//! Writing where others write too.
//!
//! A write that is based on an old version is refused with a conflict. The answer is to look again and decide again, not to
//! write the same thing again; and not for ever, for a reconcile that fails is tried again anyway.

use std::{
    fmt::Debug,
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use kube::{Api, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::sleep;

/// How often and how fast conflicts are tried again.
#[derive(Clone)]
pub struct ConflictRetry {
    tries: u32,
    pause: Duration,
    /// From 0 to 1.
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// Does something again, with a fresh look, as long as it is refused because others wrote meanwhile: five times in all, a few
/// milliseconds apart. `attempt` reads what it is about to write.
///
/// ```
/// # async fn show(api: kube::Api<k8s_openapi::api::core::v1::ConfigMap>) -> Result<(), kube::Error> {
/// use kubecontroller::conflict::retry_on_conflict;
///
/// retry_on_conflict(|| async {
///     let mut map = api.get("counter").await?;
///     map.data.get_or_insert_default().insert("seen".to_owned(), "yes".to_owned());
///     api.replace("counter", &kube::api::PostParams::default(), &map).await
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn retry_on_conflict<T, F, Fut>(attempt: F) -> Result<T, kube::Error>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, kube::Error>>,
{
    ConflictRetry::default().retry(attempt).await
}

/// Reads an object, changes it and writes it, again if others wrote meanwhile. What the change leaves as it is is not written.
pub async fn update<K>(api: &Api<K>, name: &str, mut change: impl FnMut(&mut K)) -> Result<K, kube::Error>
where
    K: kube::Resource + Clone + Debug + Serialize + DeserializeOwned + PartialEq,
{
    let mut attempt = async || {
        let before = api.get(name).await?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(before);
        }
        api.replace(name, &PostParams::default(), &after).await
    };
    let conflicts = ConflictRetry::default();
    let mut tries = 0;
    loop {
        tries += 1;
        match attempt().await {
            Err(error) if is_conflict(&error) && tries < conflicts.tries => conflicts.pause().await,
            result => return result,
        }
    }
}

/// Whether a write was refused because others wrote meanwhile.
pub fn is_conflict(error: &kube::Error) -> bool {
    // `AlreadyExists` has the same code, and a fresh look at the same decision would not help it.
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

// --- ConflictRetry ---

impl Default for ConflictRetry {
    /// Five tries, 10 ms and up to as much again apart.
    fn default() -> Self {
        ConflictRetry {
            tries: 5,
            pause: Duration::from_millis(10),
            random: Arc::new(random),
        }
    }
}

impl ConflictRetry {
    /// How often something is tried in all. At least once.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// How far the tries are apart at least; at most twice that.
    #[must_use]
    pub fn backoff(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Where the part of the pauses comes from that is left to chance: numbers from 0 to 1.
    #[must_use]
    pub fn random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(random);
        self
    }

    /// Does something, again as long as others wrote meanwhile and tries are left.
    pub async fn retry<T, F, Fut>(&self, mut attempt: F) -> Result<T, kube::Error>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, kube::Error>>,
    {
        let mut tries = 0;
        loop {
            tries += 1;
            match attempt().await {
                Err(error) if is_conflict(&error) && tries < self.tries => self.pause().await,
                result => return result,
            }
        }
    }

    /// Two who were refused together should not come back together.
    async fn pause(&self) {
        let more = (self.random)().clamp(0.0, 1.0);
        sleep(self.pause + self.pause.mul_f64(more)).await;
    }
}

/// A number from 0 to 1. Every hasher is seeded afresh.
fn random() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default();
    f64::from(bits) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::Duration};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, core::Status};
    use tokio::time::Instant;

    use super::{ConflictRetry, update};
    use crate::testing::FakeApi;

    fn refused(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("no", reason).with_code(code).boxed())
    }

    #[tokio::test]
    async fn of_two_writers_one_looks_again_and_both_succeed() {
        let api = FakeApi::new();
        let map: ConfigMap =
            serde_json::from_str(r#"{"metadata": {"name": "web", "namespace": "shop"}}"#).unwrap();
        api.put(&map);
        let maps: Api<ConfigMap> = Api::namespaced(api.client(), "shop");
        let set = |map: &mut ConfigMap, name: &str| {
            map.data
                .get_or_insert_default()
                .insert(name.to_owned(), "yes".to_owned());
        };
        let mut looks = 0;
        let change = |map: &mut ConfigMap| {
            looks += 1;
            if looks == 1 {
                api.edit("shop", "web", |map| set(map, "theirs"));
            }
            set(map, "ours");
        };
        let written = update(&maps, "web", change).await.unwrap();
        assert_eq!((looks, written.data.unwrap_or_default().len()), (2, 2));
        // What is right already is not written.
        let before = api.version();
        update(&maps, "web", |map| set(map, "ours")).await.unwrap();
        assert_eq!(api.version(), before);
    }

    async fn tries(conflicts: u32, error: impl Fn() -> kube::Error) -> (u32, bool, Duration) {
        let (tries, begin) = (Cell::new(0), Instant::now());
        let attempt = || {
            tries.set(tries.get() + 1);
            let result = if tries.get() > conflicts {
                Ok(())
            } else {
                Err(error())
            };
            std::future::ready(result)
        };
        let result = ConflictRetry::default().random(|| 0.5).retry(attempt).await;
        (tries.get(), result.is_ok(), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_tried_again_with_a_pause_but_not_for_ever() {
        let conflict = || refused(409, "Conflict");
        let pause = Duration::from_millis(15);
        assert_eq!(tries(0, conflict).await, (1, true, Duration::ZERO));
        assert_eq!(tries(2, conflict).await, (3, true, pause * 2));
        assert_eq!(tries(4, conflict).await, (5, true, pause * 4));
        assert_eq!(tries(5, conflict).await, (5, false, pause * 4));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_tried_again() {
        for (code, reason) in [(409, "AlreadyExists"), (404, "NotFound"), (500, "InternalError")] {
            assert_eq!(
                tries(1, || refused(code, reason)).await,
                (1, false, Duration::ZERO)
            );
        }
    }
}
