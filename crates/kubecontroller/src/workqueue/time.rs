//! Time as a queue counts it.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since a queue was made. Half the size of an [`Instant`], and it can be added to without an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueTime(u64);

// --- QueueTime ---

impl QueueTime {
    pub(super) fn of(time: Instant, birth: Instant) -> Self {
        QueueTime(nanos(time.saturating_duration_since(birth)))
    }

    pub(super) fn time(self, birth: Instant) -> Instant {
        birth + Duration::from_nanos(self.0)
    }

    pub(super) fn plus(self, after: Duration) -> Self {
        QueueTime(self.0.saturating_add(nanos(after)))
    }

    pub(super) fn since(self, earlier: QueueTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
