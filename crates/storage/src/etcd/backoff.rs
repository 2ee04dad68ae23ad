//! Exponential back-off.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// Delays that double from 50 milliseconds to two seconds.
pub(super) struct Backoff(Duration);

// --- Backoff ---

impl Backoff {
    pub(super) fn new() -> Self {
        Self(FIRST)
    }

    /// Resets the delay after a success.
    pub(super) fn reset(&mut self) {
        self.0 = FIRST;
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}
