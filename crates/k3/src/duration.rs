//! Durations of flags.

use std::time::Duration;

use k3_duration::NegativeDurationError;

/// Parses whole seconds above zero, such as `90s`, `1h30m`, `2d`.
pub(crate) fn parse_whole_seconds(text: &str) -> Result<Duration, &'static str> {
    k3_duration::parse_with_days(text)
        .ok()
        .filter(|duration| !duration.is_zero() && duration.subsec_nanos() == 0)
        .ok_or("invalid duration; for example 90s, 30m, 1h30m or 2d")
}

/// Why a text is not a duration above zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PositiveDurationError {
    #[error(transparent)]
    Invalid(#[from] NegativeDurationError),
    #[error("must be greater than zero, such as 60s")]
    Zero,
}

/// Parses a duration as Go writes it.
pub(crate) fn parse(text: &str) -> Result<Duration, NegativeDurationError> {
    k3_duration::parse(text)
}

/// Parses a duration above zero as Go writes it.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, PositiveDurationError> {
    let parsed = parse(text)?;
    if parsed.is_zero() {
        return Err(PositiveDurationError::Zero);
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_go_durations() {
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_positive("1m30s"), Ok(Duration::from_secs(90)));
        for wrong in ["60", "soon", "0s", "-1s", ""] {
            assert!(parse_positive(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn adds_units_and_rejects_invalid_durations() {
        assert_eq!(parse_whole_seconds("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse_whole_seconds("2d"), Ok(Duration::from_hours(48)));
        assert_eq!(parse_whole_seconds("90s"), Ok(Duration::from_secs(90)));
        for odd in [
            "",
            "1",
            "h",
            "-1h",
            "1ms",
            "1.5s",
            "0s",
            "1h 1m",
            "99999999999999999999d",
            "300000000000000000d",
        ] {
            assert!(parse_whole_seconds(odd).is_err(), "{odd}");
        }
    }
}
