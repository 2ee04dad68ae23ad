//! Timestamps, ages and durations in kubectl's formats.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, civil::DateTime, fmt::temporal::Pieces};
use serde_json::Value;

use crate::error::ClientError;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "ages are relative to the local clock; this is the only function that reads it"
)]
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
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
        .map_or_else(|| "<unknown>".to_owned(), |at| human(now() - at))
}

// upstream: staging/src/k8s.io/apimachinery/pkg/util/duration/duration.go HumanDuration
/// Formats a duration with at most two units. The finer unit is left out where the coarse one is precise enough.
pub(crate) fn human(seconds: i64) -> String {
    let two = |whole: i64, unit: &str, rest: i64, finer: &str| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{finer}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Parses a duration: `90s`, `1h30m`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, ClientError> {
    let bad = || {
        ClientError::usage(format!(
            "invalid duration {text:?}: expected a form such as 90s, 5m or 1h30m"
        ))
    };
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
        let (number, after) = rest.split_at(digits.unwrap_or(rest.len()));
        let unit_end = after
            .find(|letter: char| letter.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let scale = match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return Err(bad()),
        };
        total += number.parse::<f64>().map_err(|_| bad())? * scale;
        rest = next;
    }
    if text.is_empty() {
        return Err(bad());
    }
    Duration::try_from_secs_f64(total).map_err(|_| bad())
}

/// Parses a duration flag; clap adds its own `error:` prefix.
pub(crate) fn duration_argument(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|failed| failed.to_string().trim_start_matches("error: ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_at_most_two_units() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (9 * HOUR, "9h"),
            (49 * HOUR, "2d1h"),
            (9 * DAY, "9d"),
            (2 * YEAR + DAY, "2y1d"),
            (9 * YEAR + DAY, "9y"),
        ] {
            assert_eq!(human(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn parses_and_formats_timestamps() {
        assert_eq!(seconds("1970-01-02T00:00:01Z"), Some(DAY + 1));
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
        assert_eq!(duration("1h30m").unwrap(), Duration::from_mins(90));
        assert_eq!(duration("0").unwrap(), Duration::ZERO);
        assert!(duration("soon").is_err());
        assert!(duration("").is_err());
        assert!(duration("5x").is_err());
    }
}
