//! Limits the rate of reconciles.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Limits reconciles of all workers to a rate, with a burst of one second.
pub(super) struct ReconcileRateLimiter {
    /// The time between two reconciles at the rate.
    interval: Duration,
    /// When the next reconcile is due at the rate. At most one second in the past, which bounds the burst.
    next: Mutex<Option<Instant>>,
}

// --- ReconcileRateLimiter ---

impl ReconcileRateLimiter {
    pub(super) fn new(per_second: f64) -> Self {
        ReconcileRateLimiter {
            interval: Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX),
            next: Mutex::new(None),
        }
    }

    /// Waits until the next reconcile may start.
    pub(super) async fn acquire(&self) {
        let now = Instant::now();
        let start_at = {
            let mut next = self.next.lock();
            // One interval less than a second: the reconcile that starts now is part of the burst.
            let burst = Duration::from_secs(1).saturating_sub(self.interval);
            let earliest = now.checked_sub(burst).unwrap_or(now);
            let start_at = next.map_or(earliest, |next| next.max(earliest));
            *next = start_at.checked_add(self.interval);
            start_at
        };
        if start_at > now {
            sleep_until(start_at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::ReconcileRateLimiter;

    #[tokio::test(start_paused = true)]
    async fn limits_the_rate_after_a_burst_of_one_second() {
        let limiter = ReconcileRateLimiter::new(10.0);
        let begin = Instant::now();
        for _ in 0..10 {
            limiter.acquire().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for _ in 10..100 {
            limiter.acquire().await;
        }
        let took = begin.elapsed();
        assert!(
            took.abs_diff(Duration::from_secs(9)) < Duration::from_millis(50),
            "{took:?}"
        );
        // Idle time beyond one second does not increase the burst.
        sleep(Duration::from_mins(1)).await;
        let begin = Instant::now();
        for _ in 0..20 {
            limiter.acquire().await;
        }
        assert!(
            begin.elapsed() >= Duration::from_millis(900),
            "{:?}",
            begin.elapsed()
        );
    }
}
