//! What `jiff` lacks for Go's times: seconds of any year, and time zones by Go's names with Go's errors.
//!
//! Times of clients reach years that `jiff` does not know: `9999-12-31T23:59:59-24:00` is in the year 10000.

// upstream: vendor/github.com/google/cel-go/common/types/timestamp.go timeZone; the zone names and errors are those of Go's time.LoadLocation

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

/// The Gregorian calendar repeats after this many years, weekdays included.
const CYCLE_YEARS: i64 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 86_400;

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Why a time zone cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadLocationError {
    /// The time zone database has no zone of this name.
    #[error("unknown time zone {0}")]
    Unknown(String),
    /// The name would be a path outside the directory of the time zone database.
    #[error("time: invalid location name")]
    InvalidName,
}

/// Returns the time zone of a name such as `Europe/Paris`. The empty name is UTC. Names are case-sensitive.
///
/// The time zone database is part of the program: minimal images have none.
pub fn load_location(name: &str) -> Result<TimeZone, LoadLocationError> {
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err(LoadLocationError::InvalidName);
    }
    let unknown = || LoadLocationError::Unknown(name.to_owned());
    let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
    // The database ignores case, and Etc/Unknown is a name of jiff only.
    if zone.iana_name() != Some(name) || zone.is_unknown() {
        return Err(unknown());
    }
    Ok(zone)
}

/// Returns how many seconds clocks of a time zone are ahead of UTC at a Unix time.
pub fn utc_offset(zone: &TimeZone, unix_seconds: i64) -> i64 {
    let first = Timestamp::MIN.as_second();
    let last = Timestamp::MAX.as_second();
    let within = if unix_seconds > last {
        // The rules of a zone repeat with the calendar.
        last - CYCLE_SECONDS + (unix_seconds - last).rem_euclid(CYCLE_SECONDS)
    } else {
        unix_seconds.max(first)
    };
    let timestamp = Timestamp::from_second(within).expect("within the range of timestamps");
    i64::from(zone.to_offset(timestamp).seconds())
}

/// Returns the year and the date and time in UTC of any Unix time. The date's own year differs from the year by a
/// multiple of 400: month, day, weekday and day of the year are equal.
pub fn civil_time(unix_seconds: i64) -> (i64, DateTime) {
    let in_cycle = unix_seconds.rem_euclid(CYCLE_SECONDS);
    let timestamp = Timestamp::from_second(in_cycle).expect("between the years 1970 and 2370");
    let civil = Offset::UTC.to_datetime(timestamp);
    let year = i64::from(civil.year()) + unix_seconds.div_euclid(CYCLE_SECONDS) * CYCLE_YEARS;
    (year, civil)
}

/// Returns the Unix time at which a day begins in UTC; `None` if the calendar has no such day.
pub fn unix_midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i16::try_from(year).ok()?;
    let month = i8::try_from(month).ok()?;
    let day = i8::try_from(day).ok()?;
    let date = Date::new(year, month, day).ok()?;
    Some(date.duration_since(EPOCH).as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the offset in hours at a time such as `2026-01-01T00:00:00Z`.
    fn offset_hours(zone: &str, at: &str) -> i64 {
        let at: Timestamp = at.parse().unwrap();
        utc_offset(&load_location(zone).unwrap(), at.as_second()) / 3600
    }

    #[test]
    fn offsets_follow_daylight_saving_in_the_past_and_future() {
        for (zone, at, hours) in [
            ("Europe/Paris", "2026-01-01T00:00:00Z", 1),
            ("Europe/Paris", "2026-07-01T00:00:00Z", 2),
            ("Europe/Paris", "2075-07-01T00:00:00Z", 2),
            ("Europe/Paris", "1975-07-01T00:00:00Z", 1),
            ("America/New_York", "2026-03-08T06:59:59Z", -5),
            ("America/New_York", "2026-03-08T07:00:00Z", -4),
            ("America/New_York", "2026-11-01T05:59:59Z", -4),
            ("America/New_York", "2026-11-01T06:00:00Z", -5),
            ("Australia/Sydney", "2026-01-01T00:00:00Z", 11),
            ("Australia/Sydney", "2026-07-01T00:00:00Z", 10),
            ("Asia/Tokyo", "2026-07-01T00:00:00Z", 9),
            ("Etc/GMT+5", "2026-07-01T00:00:00Z", -5),
            ("UTC", "2026-07-01T00:00:00Z", 0),
        ] {
            assert_eq!(offset_hours(zone, at), hours, "{zone} {at}");
        }
    }

    #[test]
    fn offsets_of_years_beyond_9999_are_those_of_400_years_before() {
        let paris = load_location("Europe/Paris").unwrap();
        let july = unix_midnight(9990, 7, 1).unwrap() + CYCLE_SECONDS;
        let january = unix_midnight(9990, 1, 1).unwrap() + CYCLE_SECONDS;
        assert_eq!(utc_offset(&paris, july), 7200);
        assert_eq!(utc_offset(&paris, january), 3600);
        assert_eq!(utc_offset(&paris, i64::MIN), utc_offset(&paris, -62_135_596_800));
        utc_offset(&paris, i64::MAX);
    }

    #[test]
    fn loads_each_bundled_zone() {
        let mut zones = 0;
        for name in TimeZoneDatabase::bundled().available() {
            load_location(name.as_str()).unwrap();
            zones += 1;
        }
        assert!(zones > 500, "{zones}");
    }

    #[test]
    fn zone_names_are_exact() {
        assert_eq!(load_location("").unwrap(), TimeZone::UTC);
        let error = |name: &str| load_location(name).unwrap_err().to_string();
        assert_eq!(error("europe/paris"), "unknown time zone europe/paris");
        assert_eq!(error("Local/x"), "unknown time zone Local/x");
        assert_eq!(error("+02:00"), "unknown time zone +02:00");
        assert_eq!(error("Etc/Unknown"), "unknown time zone Etc/Unknown");
        assert_eq!(error("../x"), "time: invalid location name");
        assert_eq!(error("/etc/localtime"), "time: invalid location name");
    }

    #[test]
    fn civil_time_covers_any_year() {
        for (unix_seconds, year, rest) in [
            (0, 1970, "01-01T00:00:00"),
            (-1, 1969, "12-31T23:59:59"),
            (-62_135_596_801, 0, "12-31T23:59:59"),
            (253_402_300_800, 10_000, "01-01T00:00:00"),
            (253_402_300_800 + 59 * 86_400, 10_000, "02-29T00:00:00"),
        ] {
            let (shown_year, civil) = civil_time(unix_seconds);
            assert_eq!(shown_year, year, "{unix_seconds}");
            assert!(civil.to_string().ends_with(rest), "{civil}");
        }
        civil_time(i64::MAX);
        civil_time(i64::MIN);
    }

    #[test]
    fn midnight_is_the_inverse_of_civil_time() {
        for days in (-719_528..=2_932_896).step_by(7) {
            let (year, civil) = civil_time(days * 86_400);
            let midnight = unix_midnight(year, civil.month().into(), civil.day().into());
            assert_eq!(midnight, Some(days * 86_400));
        }
        assert_eq!(unix_midnight(2023, 2, 29), None);
        assert_eq!(unix_midnight(2023, 0, 1), None);
    }
}
