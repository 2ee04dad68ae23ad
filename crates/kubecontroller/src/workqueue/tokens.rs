//! Tokens that come at a steady rate.

use std::time::Duration;

use super::{BucketRateLimiter, time::QueueTime};

/// A bucket of tokens. Whoever takes one that is not there yet waits until it is.
#[derive(Debug)]
pub(super) struct Tokens {
    bucket: BucketRateLimiter,
    /// Below zero if tokens were taken that are still to come.
    left: f64,
    at: Option<QueueTime>,
}

// --- Tokens ---

impl Tokens {
    pub(super) fn new(bucket: BucketRateLimiter) -> Self {
        Tokens {
            bucket,
            left: bucket.burst,
            at: None,
        }
    }

    /// Takes a token. Gives how long it is until it is there.
    pub(super) fn take(&mut self, now: QueueTime) -> Duration {
        if let Some(at) = self.at {
            let came = now.since(at).as_secs_f64() * self.bucket.rate;
            self.left = (self.left + came).min(self.bucket.burst);
        }
        self.at = Some(now);
        self.left -= 1.0;
        if self.left >= 0.0 {
            return Duration::ZERO;
        }
        // A rate of nothing means that no further token ever comes.
        Duration::try_from_secs_f64(-self.left / self.bucket.rate).unwrap_or(Duration::MAX / 4)
    }
}
