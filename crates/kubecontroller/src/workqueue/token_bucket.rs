//! The token bucket that retries of all keys share.

use std::time::Duration;

use super::{BucketRateLimiter, time::QueueTime};

/// A token bucket. Taking a token reserves it: if the bucket is empty, the caller waits until its token is added.
#[derive(Debug)]
pub(super) struct TokenBucket {
    limits: BucketRateLimiter,
    /// Negative if tokens are reserved that are not added yet.
    tokens: f64,
    refilled_at: Option<QueueTime>,
}

// --- TokenBucket ---

impl TokenBucket {
    pub(super) fn new(limits: BucketRateLimiter) -> Self {
        TokenBucket {
            limits,
            tokens: limits.burst,
            refilled_at: None,
        }
    }

    /// Reserves a token. Returns the delay until it is available.
    pub(super) fn reserve(&mut self, now: QueueTime) -> Duration {
        if let Some(refilled_at) = self.refilled_at {
            let added = now.since(refilled_at).as_secs_f64() * self.limits.rate;
            self.tokens = (self.tokens + added).min(self.limits.burst);
        }
        self.refilled_at = Some(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        // At a rate of zero no token is ever added.
        Duration::try_from_secs_f64(-self.tokens / self.limits.rate).unwrap_or(Duration::MAX / 4)
    }
}
