//! The delay before something that failed is tried again.
//!
//! Promises: delays never decrease while failures follow each other, and no delay is longer than the maximum, however many
//! failures there are.

use std::time::Duration;

/// A delay that grows with each failure in a row: client-go's `ItemExponentialFailureRateLimiter`.
// upstream: staging/src/k8s.io/client-go/util/workqueue/default_rate_limiters.go ItemExponentialFailureRateLimiter
#[doc(alias = "ItemExponentialFailureRateLimiter")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure.
    pub base: Duration,
    /// The maximum delay.
    pub max: Duration,
    /// The factor by which each further failure multiplies the delay. 0 and 1 keep it constant.
    pub factor: u32,
}

/// The delays of one task that retries.
#[derive(Clone, Debug)]
pub struct BackoffDelays {
    backoff: Backoff,
    /// Failures in a row.
    failures: u32,
}

// --- Backoff ---

impl Backoff {
    /// A delay that each failure doubles.
    #[must_use]
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Backoff { base, max, factor: 2 }
    }

    /// The same delay after each failure.
    #[must_use]
    pub const fn constant(delay: Duration) -> Self {
        Backoff {
            base: delay,
            max: delay,
            factor: 1,
        }
    }

    /// The delay after this many failures in a row.
    #[must_use]
    pub fn after(&self, failures: u32) -> Duration {
        let times = self.factor.max(1).saturating_pow(failures.saturating_sub(1));
        self.base.saturating_mul(times).min(self.max)
    }

    /// The delays of a task, from the first failure on.
    #[must_use]
    pub const fn delays(self) -> BackoffDelays {
        BackoffDelays {
            backoff: self,
            failures: 0,
        }
    }
}

// --- BackoffDelays ---

impl BackoffDelays {
    /// Counts a failure and returns the delay before the next try.
    pub fn next_delay(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.after(self.failures)
    }

    /// Starts again with the first delay, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let backoff = Backoff::exponential(MILLISECOND, 10 * MILLISECOND);
        let delays = [0, 1, 2, 3, 4, 5, 33, u32::MAX].map(|failures| backoff.after(failures).as_millis());
        assert_eq!(delays, [1, 1, 2, 4, 8, 10, 10, 10]);
    }

    #[test]
    fn factor_of_at_most_one_keeps_the_delay() {
        let constant = Backoff::constant(MILLISECOND);
        let zero = Backoff {
            factor: 0,
            ..Backoff::exponential(MILLISECOND, 10 * MILLISECOND)
        };
        for failures in [0, 1, 7, u32::MAX] {
            assert_eq!(constant.after(failures), MILLISECOND);
            assert_eq!(zero.after(failures), MILLISECOND);
        }
    }

    #[test]
    fn large_factors_and_delays_do_not_overflow() {
        let backoff = Backoff {
            base: Duration::MAX,
            max: Duration::MAX,
            factor: u32::MAX,
        };
        assert_eq!(backoff.after(u32::MAX), Duration::MAX);
    }

    #[test]
    fn reset_starts_with_the_first_delay() {
        let mut delays = Backoff::exponential(MILLISECOND, 3 * MILLISECOND).delays();
        let first = [delays.next_delay(), delays.next_delay(), delays.next_delay()];
        assert_eq!(first.map(|delay| delay.as_millis()), [1, 2, 3]);
        delays.reset();
        assert_eq!(delays.next_delay(), MILLISECOND);
    }
}
