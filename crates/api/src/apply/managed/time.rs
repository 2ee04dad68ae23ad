//! When an entry last changed, to the second.

use std::fmt;

/// A time, in seconds since 1970, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(i64);

const DAY: i64 = 86_400;

// --- Time ---

impl Time {
    /// The time that many seconds after 1970 began.
    pub const fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970 began.
    pub const fn unix_seconds(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339, with any offset. Parts of a second are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 || !text.is_ascii() {
            return None;
        }
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = &text[from..to];
            if digits.bytes().all(|digit| digit.is_ascii_digit()) {
                digits.parse().ok()
            } else {
                None
            }
        };
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if separators.iter().any(|(at, separator)| bytes[*at] != *separator) {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let in_range = (1..=12).contains(&month)
            && (1..=days_of(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !in_range {
            return None;
        }
        let offset = offset(fraction_end(text)?)?;
        Some(Self(
            days_since_1970(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset,
        ))
    }
}

/// RFC 3339 in UTC.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let (year, month, day) = date(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// What follows the seconds and their fraction.
fn fraction_end(text: &str) -> Option<&str> {
    let rest = &text[19..];
    let Some(fraction) = rest.strip_prefix('.') else {
        return Some(rest);
    };
    let end = fraction.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if end.len() < fraction.len() {
        Some(end)
    } else {
        None
    }
}

fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |digits: &str| {
        if digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit()) {
            digits.parse::<i64>().ok()
        } else {
            None
        }
    };
    Some(sign * (two(hours)? * 3600 + two(minutes)? * 60))
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the years before this one, counted from the year 0.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    365 * year + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400) + 1
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let months: i64 = (1..month).map(|month| days_of(year, month)).sum();
    days_before(year) - days_before(1970) + months + day - 1
}

fn date(days: i64) -> (i64, i64, i64) {
    // Never too late: years are no longer than 366 days, nor shorter than 365.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let mut rest = days - days_since_1970(year, 1, 1);
    let mut month = 1;
    while rest >= days_of(year, month) {
        rest -= days_of(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_any_offset_and_written_in_utc() {
        for (text, utc) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("2024-02-29T23:59:59.999999Z", "2024-02-29T23:59:59Z"),
            ("2026-07-23T14:47:51+02:00", "2026-07-23T12:47:51Z"),
            ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
            ("1969-12-31T23:59:59-00:30", "1970-01-01T00:29:59Z"),
        ] {
            assert_eq!(Time::parse(text).unwrap().to_string(), utc);
        }
        assert_eq!(
            Time::parse("2026-07-23T14:47:51Z"),
            Some(Time::from_unix_seconds(1_784_818_071))
        );
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T24:00:00Z",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in days_since_1970(1900, 1, 1)..days_since_1970(2300, 1, 1) {
            let time = Time(day * DAY + 12_345);
            assert_eq!(Time::parse(&time.to_string()), Some(time));
        }
    }
}
