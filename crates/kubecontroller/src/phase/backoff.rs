//! Exponential backoff between the tries of a phase.

use std::time::Duration;

/// The backoff after failed tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseBackoff {
    /// The delay after the first failure. Default: the defer interval of the phase.
    pub first: Option<Duration>,
    /// The factor by which each further failure multiplies the delay. Default: 2. A factor of 1 keeps it constant.
    pub factor: u32,
    /// The maximal delay. Default: 5 minutes. A larger first delay takes precedence.
    pub longest: Duration,
}

// --- PhaseBackoff ---

impl PhaseBackoff {
    /// A constant delay: the defer interval of the phase.
    pub fn fixed() -> Self {
        PhaseBackoff {
            factor: 1,
            ..PhaseBackoff::default()
        }
    }

    pub(super) fn delay(&self, failures: u32, defer: Duration) -> Duration {
        let first = self.first.unwrap_or(defer);
        let times = self.factor.max(1).saturating_pow(failures.saturating_sub(1));
        first.saturating_mul(times).min(self.longest.max(first))
    }
}

impl Default for PhaseBackoff {
    fn default() -> Self {
        PhaseBackoff {
            first: None,
            factor: 2,
            longest: Duration::from_mins(5),
        }
    }
}
