//! Timestamps (RFC 3339).

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use k3_cel::calendar::civil_time;
use k3_duration::Duration;

use super::reader::{self, Fraction, ParseTimeError};

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Since the beginning of 1970, in UTC.
    seconds: i64,
    /// Less than a second; counted forward also before 1970.
    nanos: u32,
}

// --- Time ---

impl Time {
    /// The time that Go takes for none: the beginning of the year 1. Objects carry null for it.
    pub const ZERO: Time = Time {
        seconds: -62_135_596_800,
        nanos: 0,
    };

    /// Seconds since the beginning of 1970, and nanoseconds after that, less than a second.
    pub const fn from_unix(seconds: i64, nanos: u32) -> Self {
        debug_assert!(nanos < 1_000_000_000);
        Time { seconds, nanos }
    }

    /// Reads a time: `2006-01-02T15:04:05Z`, with or without a fraction, in any zone.
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        reader::read(text, Fraction::Free)
    }

    /// Reads a time with microseconds: `2006-01-02T15:04:05.000000Z`.
    pub fn parse_micro(text: &str) -> Result<Self, ParseTimeError> {
        reader::read(text, Fraction::Micro)
    }

    /// With microseconds: `2006-01-02T15:04:05.000000Z`.
    pub fn micro(self) -> String {
        format!("{}.{:06}Z", self.unzoned(), self.nanos / 1000)
    }

    /// Seconds since the beginning of 1970.
    pub fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// Without what objects do not carry: less than a second.
    #[must_use]
    pub fn truncated(self) -> Self {
        Time { nanos: 0, ..self }
    }

    /// How long after another.
    pub fn since(self, earlier: Time) -> Duration {
        let nanos = (i128::from(self.seconds) - i128::from(earlier.seconds)) * 1_000_000_000
            + i128::from(self.nanos)
            - i128::from(earlier.nanos);
        Duration::from_nanos_saturating(nanos)
    }

    /// That much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let nanos = i64::from(self.nanos) + duration.nanos() % 1_000_000_000;
        let seconds = self.seconds + duration.nanos() / 1_000_000_000 + nanos.div_euclid(1_000_000_000);
        let nanos = u32::try_from(nanos.rem_euclid(1_000_000_000)).expect("a remainder of a second");
        Time { seconds, nanos }
    }

    fn unzoned(self) -> String {
        let (year, civil) = civil_time(self.seconds);
        format!(
            "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.month(),
            civil.day(),
            civil.hour(),
            civil.minute(),
            civil.second()
        )
    }
}

/// As objects carry it: `2006-01-02T15:04:05Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", self.unzoned())
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let whole = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Time {
                seconds: whole(after),
                nanos: after.subsec_nanos(),
            },
            Err(error) => {
                let before = error.duration();
                match before.subsec_nanos() {
                    0 => Time {
                        seconds: -whole(before),
                        nanos: 0,
                    },
                    nanos => Time {
                        seconds: -whole(before) - 1,
                        nanos: 1_000_000_000 - nanos,
                    },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(Time::from_unix(0, 0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(
            Time::from_unix(1_700_000_000, 123_456_789).to_string(),
            "2023-11-14T22:13:20Z"
        );
        assert_eq!(
            Time::from_unix(1_700_000_000, 123_456_789).micro(),
            "2023-11-14T22:13:20.123456Z"
        );
        assert_eq!(Time::from_unix(-1, 5_000).micro(), "1969-12-31T23:59:59.000005Z");
        assert_eq!(Time::ZERO.to_string(), "0001-01-01T00:00:00Z");
    }

    #[test]
    fn zones_and_fractions_are_read() {
        for (text, seconds, nanos) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("1970-01-01T01:00:00+01:00", 0, 0),
            ("1969-12-31T20:30:00-03:30", 0, 0),
            ("1970-01-01T00:00:00.5Z", 0, 500_000_000),
            ("1970-01-01T00:00:00,25Z", 0, 250_000_000),
            ("1970-01-01T00:00:00.1234567899Z", 0, 123_456_789),
            ("1970-01-01T7:00:00Z", 7 * 3600, 0),
            ("2024-02-29T00:00:00Z", 1_709_164_800, 0),
        ] {
            assert_eq!(
                Time::parse(text).unwrap(),
                Time::from_unix(seconds, nanos),
                "{text}"
            );
        }
        assert_eq!(
            Time::parse_micro("1970-01-01T00:00:00.000001Z").unwrap(),
            Time::from_unix(0, 1_000)
        );
    }

    #[test]
    fn rejects_invalid_times_with_messages_of_go() {
        const AS: &str = "as \"2006-01-02T15:04:05Z07:00\": cannot parse";
        for (text, error) in [
            ("", format!("\"\" {AS} \"\" as \"2006\"")),
            ("soon", format!("\"soon\" {AS} \"soon\" as \"2006\"")),
            ("2024", format!("\"2024\" {AS} \"\" as \"-\"")),
            (
                "2024-1-02T00:00:00Z",
                format!("\"2024-1-02T00:00:00Z\" {AS} \"1-02T00:00:00Z\" as \"01\""),
            ),
            (
                "2024-01-02 00:00:00Z",
                format!("\"2024-01-02 00:00:00Z\" {AS} \" 00:00:00Z\" as \"T\""),
            ),
            (
                "2024-01-02T00:00:00",
                format!("\"2024-01-02T00:00:00\" {AS} \"\" as \"Z07:00\""),
            ),
            (
                "2024-01-02T00:00:00X",
                format!("\"2024-01-02T00:00:00X\" {AS} \"X\" as \"Z07:00\""),
            ),
            (
                "2024-13-02T00:00:00Z",
                "\"2024-13-02T00:00:00Z\": month out of range".to_owned(),
            ),
            (
                "2023-02-29T00:00:00Z",
                "\"2023-02-29T00:00:00Z\": day out of range".to_owned(),
            ),
            (
                "2024-01-02T24:00:00Z",
                "\"2024-01-02T24:00:00Z\": hour out of range".to_owned(),
            ),
            (
                "2024-01-02T00:60:00Z",
                "\"2024-01-02T00:60:00Z\": minute out of range".to_owned(),
            ),
            (
                "2024-01-02T00:00:60Z",
                "\"2024-01-02T00:00:60Z\": second out of range".to_owned(),
            ),
            (
                "2024-01-02T00:00:00Zx",
                "\"2024-01-02T00:00:00Zx\": extra text: \"x\"".to_owned(),
            ),
            (
                "\u{e9}",
                format!("\"\\xc3\\xa9\" {AS} \"\\xc3\\xa9\" as \"2006\""),
            ),
        ] {
            assert_eq!(
                Time::parse(text).unwrap_err().to_string(),
                format!("parsing time {error}"),
                "{text}"
            );
        }
        assert_eq!(
            Time::parse_micro("2024-01-02T00:00:00Z").unwrap_err().to_string(),
            "parsing time \"2024-01-02T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \
             \".000000\""
        );
    }

    #[test]
    fn times_are_compared_and_subtracted() {
        let a = Time::from_unix(10, 500_000_000);
        let b = Time::from_unix(12, 0);
        assert!(a < b);
        assert_eq!(b.since(a).to_string(), "1.5s");
        assert_eq!(a.since(b).to_string(), "-1.5s");
        assert_eq!(a.plus(b.since(a)), b);
        assert_eq!(b.plus(a.since(b)), a);
        assert_eq!(
            Time::from(UNIX_EPOCH - std::time::Duration::from_millis(1)),
            Time::from_unix(-1, 999_000_000)
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(seconds in -62_135_596_800_i64..253_402_300_800, micros in 0..1_000_000_u32) {
            let time = Time::from_unix(seconds, micros * 1000);
            prop_assert_eq!(Time::parse(&time.to_string()).unwrap(), time.truncated());
            prop_assert_eq!(Time::parse(&time.micro()).unwrap(), time);
            prop_assert_eq!(Time::parse_micro(&time.micro()).unwrap(), time);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9TZ:.+\u{e9}-]{0,30}") {
            let _ = (Time::parse(&text), Time::parse_micro(&text));
        }
    }
}
