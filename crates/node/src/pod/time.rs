//! Sums and texts of times.

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

/// A duration as Go formats it: `10s`, `1m20s`, `5m0s`.
pub(super) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let hours = seconds / 3600;
    let minutes = seconds / 60 % 60;
    let rest = seconds % 60;
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_durations_like_go() {
        let formatted = [10, 80, 300, 3661].map(|seconds| format_duration(Duration::from_secs(seconds)));
        assert_eq!(formatted, ["10s", "1m20s", "5m0s", "1h1m1s"]);
    }
}
