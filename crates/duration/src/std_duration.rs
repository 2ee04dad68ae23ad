//! The same syntax for [`std::time::Duration`], which is never negative.

use std::time::Duration as StdDuration;

use crate::{
    Duration, ParseDurationError,
    duration::{Units, parse_units},
};

/// A duration that is not one forwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NegativeDurationError {
    /// Not a duration at all.
    #[error(transparent)]
    Parse(#[from] ParseDurationError),
    /// Backwards.
    #[error("it is less than nothing")]
    Negative,
}

/// Parses a duration in Go's syntax.
pub fn parse(text: &str) -> Result<StdDuration, NegativeDurationError> {
    forwards(text.parse()?)
}

/// Parses a duration in Go's syntax, and with the unit `d` for 24 hours.
pub fn parse_with_days(text: &str) -> Result<StdDuration, NegativeDurationError> {
    forwards(parse_units(text, Units::WithDays)?)
}

/// Parses a duration in Go's syntax, with the unit `d`, and with seconds for a number without unit.
pub fn parse_with_days_and_seconds(text: &str) -> Result<StdDuration, NegativeDurationError> {
    forwards(parse_units(text, Units::WithDaysAndSeconds)?)
}

/// Formats a duration as Go does: `250ms`, `1m0s`.
pub fn format(duration: StdDuration) -> String {
    Duration::from(duration).to_string()
}

fn forwards(duration: Duration) -> Result<StdDuration, NegativeDurationError> {
    u64::try_from(duration.nanos())
        .map(StdDuration::from_nanos)
        .map_err(|_| NegativeDurationError::Negative)
}

// --- Duration ---

/// As long as fits: about 292 years.
impl From<StdDuration> for Duration {
    fn from(duration: StdDuration) -> Self {
        Duration::from_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_seconds_are_only_units_where_they_are_allowed() {
        let days = StdDuration::from_hours(48);
        assert!(parse("2d").is_err() && parse("90").is_err());
        assert_eq!(parse_with_days("2d"), Ok(days));
        assert_eq!(parse_with_days("1d24h"), Ok(days));
        assert!(parse_with_days("90").is_err());
        assert_eq!(parse_with_days_and_seconds("2d"), Ok(days));
        assert_eq!(parse_with_days_and_seconds("90"), Ok(StdDuration::from_secs(90)));
        for text in ["1h30m", "1.5h"] {
            for parse in [parse, parse_with_days, parse_with_days_and_seconds] {
                assert_eq!(parse(text), Ok(StdDuration::from_mins(90)));
            }
        }
    }

    #[test]
    fn rejects_durations_backwards() {
        assert_eq!(parse("-1s"), Err(NegativeDurationError::Negative));
        assert_eq!(parse("-1s").unwrap_err().to_string(), "it is less than nothing");
        assert_eq!(
            parse("soon").unwrap_err().to_string(),
            "time: invalid duration \"soon\""
        );
    }

    #[test]
    fn formats_like_go() {
        for (millis, text) in [
            (0, "0s"),
            (12, "12ms"),
            (1500, "1.5s"),
            (60_000, "1m0s"),
            (3_661_000, "1h1m1s"),
        ] {
            assert_eq!(format(StdDuration::from_millis(millis)), text);
        }
        assert_eq!(format(StdDuration::MAX), "2562047h47m16.854775807s");
    }
}
