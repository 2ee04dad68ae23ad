//! Timestamps, ages and durations in kubectl's formats.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, civil::DateTime, fmt::temporal::Pieces};
use k3_duration::human_duration;
use serde_json::Value;

/// A flag that is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid duration {0:?}: expected a form such as 90s, 5m or 1h30m")]
pub(crate) struct InvalidDuration(String);

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "ages are relative to the local clock; this is the only function that reads it"
)]
pub(crate) fn now() -> i64 {
    // A clock before 1970 is not set: everything then is new.
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Parses an RFC 3339 timestamp, with or without fractional seconds, into seconds since 1970.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    // Not a `Timestamp`: its last day is 9999-12-30, and clients write 9999-12-31T23:59:59Z for "never".
    let civil = pieces.date().to_datetime(pieces.time()?);
    Some(civil.duration_since(EPOCH).as_secs() - i64::from(offset.seconds()))
}

/// Formats seconds since 1970 as an RFC 3339 timestamp.
pub(crate) fn timestamp(at: i64) -> String {
    Timestamp::from_second(at).unwrap_or(Timestamp::MAX).to_string()
}

/// Returns the age of an RFC 3339 timestamp; `<unknown>` when it is not one.
pub(crate) fn since(time: &Value) -> String {
    time.as_str()
        .and_then(seconds)
        .map_or_else(|| "<unknown>".to_owned(), age)
}

/// Returns the age of a time in seconds since 1970.
pub(crate) fn age(at: i64) -> String {
    human_duration(k3_duration::Duration::from_seconds(now().saturating_sub(at)))
}

/// Parses a duration flag: `90s`, `1h30m`, `2d`, or seconds. clap adds its own `error:` prefix.
pub(crate) fn duration_argument(text: &str) -> Result<Duration, InvalidDuration> {
    k3_duration::parse_with_days_and_seconds(text).map_err(|_| InvalidDuration(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_timestamps() {
        assert_eq!(seconds("1970-01-02T00:00:01Z"), Some(86_401));
        assert_eq!(
            seconds("2026-01-02T03:04:05.123456Z"),
            seconds("2026-01-02T04:04:05+01:00")
        );
        assert_eq!(
            timestamp(seconds("2026-01-02T03:04:05Z").unwrap()),
            "2026-01-02T03:04:05Z"
        );
        assert_eq!(seconds("soon"), None);
    }

    #[test]
    fn parses_durations() {
        assert_eq!(duration_argument("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration_argument("0"), Ok(Duration::ZERO));
        assert_eq!(duration_argument("90"), Ok(Duration::from_secs(90)));
        for wrong in ["soon", "", "5x", "-1s"] {
            let error = duration_argument(wrong).unwrap_err().to_string();
            assert!(error.starts_with("invalid duration"), "{error}");
        }
    }
}
