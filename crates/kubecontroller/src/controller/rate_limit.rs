//! How many reconciles there are per second.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// Reconciles that come no faster than at a rate, whoever does them; but a second's worth of them may come at once.
pub(super) struct Pace {
    /// Between two of them.
    gap: Duration,
    /// When the next one would come if all that came before had kept the pace. Not long ago.
    next: Mutex<Option<Instant>>,
}

// --- Pace ---

impl Pace {
    pub(super) fn new(per_second: f64) -> Self {
        Pace {
            gap: Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX),
            next: Mutex::new(None),
        }
    }

    /// Waits for one's turn.
    pub(super) async fn turn(&self) {
        let now = Instant::now();
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever was idle has saved up a second's worth, less the one that he takes now.
            let saved = Duration::from_secs(1).saturating_sub(self.gap);
            let earliest = now.checked_sub(saved).unwrap_or(now);
            let at = next.map_or(earliest, |next| next.max(earliest));
            *next = at.checked_add(self.gap);
            at
        };
        if at > now {
            sleep_until(at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::Pace;

    #[tokio::test(start_paused = true)]
    async fn a_hundred_turns_at_ten_per_second_take_nine_seconds_after_the_first_ten() {
        let pace = Pace::new(10.0);
        let begin = Instant::now();
        for _ in 0..10 {
            pace.turn().await;
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        for _ in 10..100 {
            pace.turn().await;
        }
        let took = begin.elapsed();
        assert!(
            took.abs_diff(Duration::from_secs(9)) < Duration::from_millis(50),
            "{took:?}"
        );
        // A long rest saves no more than a second's worth.
        sleep(Duration::from_mins(1)).await;
        let begin = Instant::now();
        for _ in 0..20 {
            pace.turn().await;
        }
        assert!(
            begin.elapsed() >= Duration::from_millis(900),
            "{:?}",
            begin.elapsed()
        );
    }
}
