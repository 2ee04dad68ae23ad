//! Parses the time in a spec.

use k8s_openapi::jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// A schedule that is not a valid time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {0:?} is not of the form 2030-01-02T15:04:05Z")]
pub struct ParseScheduleError(String);

/// Parses a schedule: a date and a time in UTC, to the second.
pub fn parse_schedule(text: &str) -> Result<Timestamp, ParseScheduleError> {
    let bad = || ParseScheduleError(text.to_owned());
    let civil = DateTime::strptime("%Y-%m-%dT%H:%M:%SZ", text).map_err(|_| bad())?;
    // `strptime` accepts missing leading zeros; the comparison below rejects them.
    let time = civil.to_zoned(TimeZone::UTC).map_err(|_| bad())?.timestamp();
    if time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() == text {
        Ok(time)
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests {
    use super::parse_schedule;

    #[test]
    fn accepts_only_utc_times_in_seconds() {
        assert_eq!(
            parse_schedule("1970-01-02T00:00:01Z").unwrap().as_second(),
            86_401
        );
        for bad in [
            "",
            "tomorrow",
            "1970-01-02",
            "1970-01-02T00:00:01",
            "1970-01-02T00:00:01+01:00",
            "1970-1-02T00:00:01Z",
            "1970-02-30T00:00:00Z",
        ] {
            assert!(parse_schedule(bad).is_err(), "{bad}");
        }
    }
}
