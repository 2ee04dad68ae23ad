//! Points in time, as a queue stores them.

use std::time::Duration;

use tokio::time::Instant;

/// Nanoseconds since the queue was created. Half the size of an [`Instant`], and additions saturate where an `Instant` would
/// overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueTime(u64);

// --- QueueTime ---

impl QueueTime {
    pub(super) fn new(time: Instant, created_at: Instant) -> Self {
        QueueTime(nanos(time.saturating_duration_since(created_at)))
    }

    pub(super) fn instant(self, created_at: Instant) -> Instant {
        created_at + Duration::from_nanos(self.0)
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
