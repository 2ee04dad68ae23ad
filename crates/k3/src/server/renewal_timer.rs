//! The times of renewal checks.
//!
//! A check is due at least every hour, and at once when the wall clock jumps or the machine wakes up: a certificate may have
//! expired, or not be valid yet.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

const PERIOD: Duration = Duration::from_hours(1);
/// Clock adjustments are smaller than this between two checks.
const JUMP: Duration = Duration::from_secs(30);

/// Compares the wall clock with the monotonic clock.
pub(super) struct RenewalTimer {
    due: Instant,
    seen: Instant,
    seen_wall: SystemTime,
}

// --- RenewalTimer ---

impl RenewalTimer {
    pub(super) fn new(now: Instant, wall: SystemTime) -> Self {
        RenewalTimer {
            due: now + PERIOD,
            seen: now,
            seen_wall: wall,
        }
    }

    /// Whether a check is due; remains true until [`RenewalTimer::restart`].
    pub(super) fn is_due(&mut self, now: Instant, wall: SystemTime) -> bool {
        let elapsed = now.saturating_duration_since(self.seen);
        let expected = self.seen_wall + elapsed;
        let off = match wall.duration_since(expected) {
            Ok(ahead) => ahead,
            Err(behind) => behind.duration(),
        };
        if off > JUMP {
            self.due = now;
        }
        self.seen = now;
        self.seen_wall = wall;
        now >= self.due
    }

    /// Records that all certificates were checked.
    pub(super) fn restart(&mut self, now: Instant) {
        self.due = now + PERIOD;
    }

    /// Records that a check failed: the next one is due at once.
    pub(super) fn retry(&mut self, now: Instant) {
        self.due = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn checks_certificates_every_hour() {
        let start = Instant::now();
        let wall = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let mut timer = RenewalTimer::new(start, wall);
        let at = |timer: &mut RenewalTimer, after: u64| {
            timer.is_due(start + seconds(after), wall + seconds(after))
        };
        assert!(!at(&mut timer, 5));
        assert!(!at(&mut timer, 3599));
        assert!(at(&mut timer, 3600));
        timer.restart(start + seconds(3600));
        assert!(!at(&mut timer, 7199));
        timer.retry(start + seconds(7199));
        assert!(at(&mut timer, 7200));
    }

    #[tokio::test(start_paused = true)]
    async fn checks_certificates_when_the_clock_jumps() {
        let start = Instant::now();
        let wall = SystemTime::UNIX_EPOCH + seconds(10_000_000);
        // Forward, as after suspend, and backward.
        for jumped in [wall + seconds(8 * 3600), wall - seconds(86_400)] {
            let mut timer = RenewalTimer::new(start, wall);
            assert!(!timer.is_due(start + seconds(5), wall + seconds(6)));
            assert!(timer.is_due(start + seconds(10), jumped));
            timer.restart(start + seconds(10));
            assert!(!timer.is_due(start + seconds(15), jumped + seconds(5)));
        }
    }
}
