//! Sums of times.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

pub(super) fn add_duration(time: Timestamp, duration: Duration) -> Timestamp {
    let duration = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}

/// Zero if the time has passed.
pub(super) fn duration_until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
