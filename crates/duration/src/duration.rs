//! Durations in Go's format: `1h30m0s`, `1.5s`, `250ms`.

use std::{
    fmt::{self, Write},
    str::FromStr,
};

/// A span of time, forwards or backwards, of up to about 292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration {
    nanos: i64,
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Not numbers with units, or too long.
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote(.0))]
    NoUnit(String),
    /// An unknown unit.
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    Unit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// The units of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Those of Go.
    Go,
    /// And `d`.
    WithDays,
    /// And none, which is a second.
    WithDaysAndSeconds,
}

/// One past the longest duration forwards; the longest backwards.
const LIMIT: u64 = 1 << 63;

// --- Duration ---

impl Duration {
    /// So many nanoseconds.
    pub fn from_nanos(nanos: i64) -> Self {
        Duration { nanos }
    }

    /// So many seconds, or as many as fit.
    pub fn from_seconds(seconds: i64) -> Self {
        Self::from_nanos_saturating(i128::from(seconds) * i128::from(SECOND))
    }

    /// In nanoseconds.
    pub fn nanos(self) -> i64 {
        self.nanos
    }

    /// In seconds, without the rest.
    pub fn whole_seconds(self) -> i64 {
        self.nanos / 1_000_000_000
    }

    /// So many nanoseconds, or as many as fit.
    pub fn from_nanos_saturating(nanos: i128) -> Self {
        let clamped = nanos.clamp(i64::MIN.into(), i64::MAX.into());
        Duration {
            nanos: i64::try_from(clamped).expect("a clamped number fits"),
        }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanos.unsigned_abs();
        if size == 0 {
            return f.write_str("0s");
        }
        if self.nanos < 0 {
            f.write_str("-")?;
        }
        match size {
            ..MICRO => write!(f, "{size}ns"),
            MICRO..MILLI => write!(f, "{}\u{b5}s", fraction(size, MICRO)),
            MILLI..SECOND => write!(f, "{}ms", fraction(size, MILLI)),
            _ => {
                let minutes = size / SECOND / 60;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                write!(f, "{}s", fraction(size % (60 * SECOND), SECOND))
            }
        }
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        parse_units(text, Units::Go)
    }
}

/// Parses a duration as Go's `time.ParseDuration` does, with these units.
pub(crate) fn parse_units(text: &str, units: Units) -> Result<Duration, ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(text.to_owned());
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::default());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = take_digits(rest);
        let (part, after) = match after.strip_prefix('.') {
            Some(after) => take_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && part.is_empty() {
            return Err(invalid());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() && units != Units::WithDaysAndSeconds {
            return Err(ParseDurationError::NoUnit(text.to_owned()));
        }
        let size = unit_nanos(unit, units).ok_or_else(|| ParseDurationError::Unit {
            unit: unit.to_owned(),
            text: text.to_owned(),
        })?;
        sum = term(whole, part, size)
            .and_then(|term| sum.checked_add(term))
            .filter(|sum| *sum <= LIMIT)
            .ok_or_else(invalid)?;
        rest = after;
    }
    let nanos = if negative {
        -i128::from(sum)
    } else {
        i128::from(sum)
    };
    i64::try_from(nanos)
        .map(Duration::from_nanos)
        .map_err(|_| invalid())
}

fn term(whole: &str, part: &str, size: u64) -> Option<u64> {
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u64>().ok().filter(|n| *n <= LIMIT)?
    };
    // Digits past the eighteenth weigh less than a nanosecond, whatever the unit.
    let part = &part[..part.len().min(18)];
    let digits = if part.is_empty() {
        0
    } else {
        part.parse::<u64>().ok()?
    };
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let fraction = u128::from(digits) * u128::from(size) / scale;
    let total = u128::from(whole) * u128::from(size) + fraction;
    u64::try_from(total).ok().filter(|n| *n <= LIMIT)
}

fn unit_nanos(unit: &str, units: Units) -> Option<u64> {
    match unit {
        "d" if units != Units::Go => Some(24 * 3600 * SECOND),
        "" if units == Units::WithDaysAndSeconds => Some(SECOND),
        "ns" => Some(1),
        // The micro sign, and the Greek letter that looks like it.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(MICRO),
        "ms" => Some(MILLI),
        "s" => Some(SECOND),
        "m" => Some(60 * SECOND),
        "h" => Some(3600 * SECOND),
        _ => None,
    }
}

fn take_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A number of units, with as many digits after the point as it needs.
fn fraction(size: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", size / unit, size % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Quoted as errors about time do it: bytes that are no printable ASCII are numbers.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=0x7f => out.push(char::from(byte)),
            _ => write!(out, "\\x{byte:02x}").expect("writing to a string succeeds"),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_written_in_the_units_they_need() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (1_000_000_000, "1s"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
            (3_600_000_000_001, "1h0m0.000000001s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(Duration::from_nanos(nanos).to_string(), text);
            assert_eq!(text.parse::<Duration>().unwrap().nanos(), nanos, "{text}");
        }
    }

    #[test]
    fn numbers_with_units_are_read() {
        for (text, nanos) in [
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("-.5s", -500_000_000),
            ("1.5h", 5_400_000_000_000),
            ("5.s", 5_000_000_000),
            ("10us", 10_000),
            ("10\u{3bc}s", 10_000),
            ("1m1m", 120_000_000_000),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("0.9999999999999999999999ns", 0),
        ] {
            let read = text.parse::<Duration>().unwrap().nanos();
            assert!((read - nanos).abs() <= 1, "{text}: {read}");
        }
    }

    #[test]
    fn rejects_invalid_durations_with_messages_of_go() {
        for (text, error) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("s", "time: invalid duration \"s\""),
            (".s", "time: invalid duration \".s\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1h5", "time: missing unit in duration \"1h5\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("5 s", "time: unknown unit \" s\" in duration \"5 s\""),
            (
                "9223372036854775808ns",
                "time: invalid duration \"9223372036854775808ns\"",
            ),
            ("3000000h", "time: invalid duration \"3000000h\""),
            (
                "99999999999999999999s",
                "time: invalid duration \"99999999999999999999s\"",
            ),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), error);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(nanos: i64) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(duration.to_string().parse::<Duration>().unwrap(), duration);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9.hmsnu\u{b5}]{0,24}") {
            let _ = text.parse::<Duration>();
        }
    }
}
