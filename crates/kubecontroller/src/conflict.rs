//! Retries after write conflicts.
//!
//! An update that is based on an old resource version fails with 409 Conflict. The remedy is to read the object again and to decide
//! again, not to repeat the same write. The number of attempts is small, because a failed reconcile is retried anyway.

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

/// How often and with which delay conflicting writes are retried.
#[derive(Clone)]
pub struct ConflictRetry {
    max_attempts: u32,
    min_delay: Duration,
    /// Returns numbers from 0 to 1.
    random: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// Runs `attempt` again while it fails with a conflict: client-go's `RetryOnConflict`. There are at most five attempts, 10 to 20 ms
/// apart. `attempt` must read the object that it writes.
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
#[doc(alias = "RetryOnConflict")]
pub async fn retry_on_conflict<T, F, Fut>(attempt: F) -> Result<T, kube::Error>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, kube::Error>>,
{
    ConflictRetry::default().retry(attempt).await
}

/// Reads an object, changes it and writes it, with retries on conflict. An object that `change` leaves unchanged is not written.
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
    // Not `ConflictRetry::retry`: the future of an async closure borrows from the closure, which `FnMut() -> Fut` cannot express.
    let retry = ConflictRetry::default();
    let mut attempts = 0;
    loop {
        attempts += 1;
        match attempt().await {
            Err(error) if is_conflict(&error) && attempts < retry.max_attempts => retry.delay().await,
            result => return result,
        }
    }
}

/// Whether a write failed because the object has changed since it was read.
pub fn is_conflict(error: &kube::Error) -> bool {
    // `AlreadyExists` has the same code, but reading again does not resolve it.
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

// --- ConflictRetry ---

impl Default for ConflictRetry {
    /// Five attempts, 10 to 20 ms apart.
    fn default() -> Self {
        ConflictRetry {
            max_attempts: 5,
            min_delay: Duration::from_millis(10),
            random: Arc::new(random),
        }
    }
}

impl ConflictRetry {
    /// The number of attempts, including the first one.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// The minimum delay between two attempts. The delay is chosen at random between this and its double.
    #[must_use]
    pub fn min_delay(mut self, min_delay: Duration) -> Self {
        self.min_delay = min_delay;
        self
    }

    /// The source of randomness for the delays: numbers from 0 to 1. For tests.
    #[must_use]
    pub fn random(mut self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.random = Arc::new(random);
        self
    }

    /// Runs `attempt` again while it fails with a conflict and attempts are left.
    pub async fn retry<T, F, Fut>(&self, mut attempt: F) -> Result<T, kube::Error>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, kube::Error>>,
    {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match attempt().await {
                Err(error) if is_conflict(&error) && attempts < self.max_attempts => self.delay().await,
                result => return result,
            }
        }
    }

    /// The delay is random: two writers that conflicted with each other must not retry in step.
    async fn delay(&self) {
        let jitter = (self.random)().clamp(0.0, 1.0);
        sleep(self.min_delay + self.min_delay.mul_f64(jitter)).await;
    }
}

/// A random number from 0 to 1. Hashers are seeded at random.
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

    fn api_error(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("no", reason).with_code(code).boxed())
    }

    #[tokio::test]
    async fn update_reads_again_after_a_conflict() {
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
        let mut calls = 0;
        let change = |map: &mut ConfigMap| {
            calls += 1;
            if calls == 1 {
                api.edit("shop", "web", |map| set(map, "theirs"));
            }
            set(map, "ours");
        };
        let written = update(&maps, "web", change).await.unwrap();
        assert_eq!((calls, written.data.unwrap_or_default().len()), (2, 2));
        // An unchanged object is not written.
        let before = api.version();
        update(&maps, "web", |map| set(map, "ours")).await.unwrap();
        assert_eq!(api.version(), before);
    }

    /// Fails `conflicts` times. Returns the number of attempts, whether the last one succeeded, and the elapsed time.
    async fn run_attempts(conflicts: u32, error: impl Fn() -> kube::Error) -> (u32, bool, Duration) {
        let attempts = Cell::new(0);
        let begin = Instant::now();
        let attempt = || {
            attempts.set(attempts.get() + 1);
            let result = if attempts.get() > conflicts {
                Ok(())
            } else {
                Err(error())
            };
            std::future::ready(result)
        };
        let result = ConflictRetry::default().random(|| 0.5).retry(attempt).await;
        (attempts.get(), result.is_ok(), begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_retried_with_a_delay_at_most_five_times() {
        let conflict = || api_error(409, "Conflict");
        let delay = Duration::from_millis(15);
        assert_eq!(run_attempts(0, conflict).await, (1, true, Duration::ZERO));
        assert_eq!(run_attempts(2, conflict).await, (3, true, delay * 2));
        assert_eq!(run_attempts(4, conflict).await, (5, true, delay * 4));
        assert_eq!(run_attempts(5, conflict).await, (5, false, delay * 4));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_are_not_retried() {
        for (code, reason) in [(409, "AlreadyExists"), (404, "NotFound"), (500, "InternalError")] {
            assert_eq!(
                run_attempts(1, || api_error(code, reason)).await,
                (1, false, Duration::ZERO)
            );
        }
    }
}
