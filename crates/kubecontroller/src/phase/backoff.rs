//! How the wait between tries grows.

use std::time::Duration;

/// How long to wait after the first failed try, the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait. Default: the defer of the phase.
    pub first: Option<Duration>,
    /// How many times as long each following one is. Default: 2. With 1 they are all the same.
    pub factor: u32,
    /// The longest. Default: 5 minutes. A first wait that is longer is kept.
    pub longest: Duration,
}

// --- Backoff ---

impl Backoff {
    /// The same wait after each failure: the defer of the phase.
    pub fn fixed() -> Self {
        Backoff {
            factor: 1,
            ..Backoff::default()
        }
    }

    pub(super) fn delay(&self, failures: u32, defer: Duration) -> Duration {
        let first = self.first.unwrap_or(defer);
        let times = self.factor.max(1).saturating_pow(failures.saturating_sub(1));
        first.saturating_mul(times).min(self.longest.max(first))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            first: None,
            factor: 2,
            longest: Duration::from_mins(5),
        }
    }
}
