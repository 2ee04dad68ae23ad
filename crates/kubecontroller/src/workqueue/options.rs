//! The options of a work queue.

use std::{fmt, hash::BuildHasher, hash::Hash, sync::Arc, time::Duration};

use k3_task::Backoff;

/// The options of a work queue.
pub struct WorkQueueOptions<K> {
    /// The backoff of a key that failed.
    pub backoff: Backoff,
    /// Limits the retries of all keys together. `None` for no limit besides the backoff of each key.
    pub bucket: Option<BucketRateLimiter>,
    /// After how many retries a key is dropped. `None` for never, which is right for level-driven controllers.
    pub max_retries: Option<u32>,
    /// After how many failures in a row [`FailureReport::report`](super::FailureReport::report) is set.
    pub report_after: u32,
    /// Delays keys until they have not been added for a while.
    pub debounce: Option<Debounce>,
    /// Returns the lane of a key. Within a priority the lanes take turns, so a lane with many keys does not starve the others.
    pub lane: LaneFn<K>,
}

/// Returns the lane of a key.
pub type LaneFn<K> = Arc<dyn Fn(&K) -> u64 + Send + Sync>;

/// A token bucket: client-go's `BucketRateLimiter`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketRateLimiter {
    /// Tokens added per second.
    pub rate: f64,
    /// The size of the bucket.
    pub burst: f64,
}

/// Delays a key until it has not been added for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// How long the key must not have been added.
    pub quiet: Duration,
    /// The maximum delay since the first addition, so that a key that is added all the time is processed too.
    pub longest: Duration,
}

// --- WorkQueueOptions ---

impl<K> Default for WorkQueueOptions<K> {
    /// Like client-go's `DefaultTypedControllerRateLimiter`: a backoff of 5 ms to 1000 s for each key, and 10 retries per second
    /// with a burst of 100 for all keys. No retry limit, no debounce, one lane.
    // upstream: staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go DefaultTypedControllerRateLimiter
    fn default() -> Self {
        WorkQueueOptions {
            backoff: Backoff::exponential(Duration::from_millis(5), Duration::from_secs(1000)),
            bucket: Some(BucketRateLimiter::default()),
            max_retries: None,
            report_after: 5,
            debounce: None,
            lane: Arc::new(|_| 0),
        }
    }
}

impl<K> Clone for WorkQueueOptions<K> {
    fn clone(&self) -> Self {
        WorkQueueOptions {
            lane: Arc::clone(&self.lane),
            ..*self
        }
    }
}

impl<K> fmt::Debug for WorkQueueOptions<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueOptions")
            .field("backoff", &self.backoff)
            .field("bucket", &self.bucket)
            .field("max_retries", &self.max_retries)
            .field("report_after", &self.report_after)
            .field("debounce", &self.debounce)
            .finish_non_exhaustive()
    }
}

impl<K> WorkQueueOptions<K> {
    /// Gives each value of a part of the key its own lane, such as the namespace.
    #[must_use]
    pub fn lanes_by<L: Hash>(mut self, part: impl Fn(&K) -> L + Send + Sync + 'static) -> Self {
        // Two values with the same hash share a lane, which is harmless.
        let hasher = hashbrown::DefaultHashBuilder::default();
        self.lane = Arc::new(move |key| hasher.hash_one(part(key)));
        self
    }
}

// --- BucketRateLimiter ---

impl Default for BucketRateLimiter {
    fn default() -> Self {
        BucketRateLimiter {
            rate: 10.0,
            burst: 100.0,
        }
    }
}
