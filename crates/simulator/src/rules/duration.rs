//! Durations in Go's format: `500ms`, `2s`, `1m30s`.

use std::{fmt, time::Duration};

use k3_duration::NegativeDurationError;
use serde::{
    Deserializer,
    de::{Error, Visitor},
};

/// A text is not a duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration such as 500ms, 2s or 1m30s")]
pub(super) struct InvalidDurationError {
    text: String,
    source: NegativeDurationError,
}

/// Parses a duration. Zero needs no unit.
pub(super) fn parse(text: &str) -> Result<Duration, InvalidDurationError> {
    k3_duration::parse(text).map_err(|source| InvalidDurationError {
        text: text.to_owned(),
        source,
    })
}

/// Deserializes a duration field.
pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_any(DurationVisitor)
}

/// Deserializes an optional duration field.
pub(super) fn read_some<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    read(from).map(Some)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 500ms, 2s or 1m30s")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Duration, E> {
        parse(&number.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Duration, E> {
        parse(&number.to_string()).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_with_units() {
        for (text, millis) in [
            ("0", 0),
            ("500ms", 500),
            ("2s", 2000),
            ("1m30s", 90_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "2", "s", "2 s", "-1s", "2d"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
