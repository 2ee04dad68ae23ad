//! What a queue is told when it is made.

use std::{fmt, hash::BuildHasher, hash::Hash, sync::Arc, time::Duration};

/// The settings of a queue.
pub struct WorkQueueOptions<K> {
    /// How long a key waits after it failed.
    pub backoff: ExponentialBackoff,
    /// How many retries there are in all; `None`: as many as the keys' own back-off lets through.
    pub bucket: Option<BucketRateLimiter>,
    /// After how many retries a key is dropped; `None`: never, which is what level-driven controllers want.
    pub max_retries: Option<u32>,
    /// After how many failures in a row a key is reported, once.
    pub report_after: u32,
    /// Whether keys wait until their events have come to rest.
    pub debounce: Option<Debounce>,
    /// The lane of a key. Keys of equal priority are served lane by lane in turn, so that a lane with many keys does not keep
    /// the others waiting.
    pub lane: LaneFn<K>,
}

/// The lane that a key is in.
pub type LaneFn<K> = Arc<dyn Fn(&K) -> u64 + Send + Sync>;

/// Twice as long after each failure in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExponentialBackoff {
    /// After the first failure.
    pub base: Duration,
    /// At most.
    pub max: Duration,
}

/// So many at once, and then so many per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketRateLimiter {
    /// Per second.
    pub rate: f64,
    /// At once.
    pub burst: f64,
}

/// How long events have to be quiet before a key is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// For so long no event came.
    pub quiet: Duration,
    /// The first event is no older: a key whose events never rest is worked on all the same.
    pub longest: Duration,
}

// --- WorkQueueOptions ---

impl<K> Default for WorkQueueOptions<K> {
    /// 5 ms to 1000 s per key, 10 retries per second after 100 at once, no end of retries, one lane.
    fn default() -> Self {
        WorkQueueOptions {
            backoff: ExponentialBackoff::default(),
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
    /// With a lane for each value of a part of the key, such as its namespace.
    #[must_use]
    pub fn lanes_by<L: Hash>(mut self, part: impl Fn(&K) -> L + Send + Sync + 'static) -> Self {
        // Two parts with one hash share a lane, and nothing else.
        let hasher = hashbrown::DefaultHashBuilder::default();
        self.lane = Arc::new(move |key| hasher.hash_one(part(key)));
        self
    }
}

// --- ExponentialBackoff ---

impl Default for ExponentialBackoff {
    fn default() -> Self {
        ExponentialBackoff {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl ExponentialBackoff {
    /// How long to wait after so many failures in a row.
    pub fn after(&self, failures: u32) -> Duration {
        let times = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(times).min(self.max)
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
