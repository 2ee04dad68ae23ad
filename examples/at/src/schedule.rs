//! When: the time in a spec.

use k8s_openapi::jiff::{Timestamp, civil::DateTime, tz::TimeZone};

/// A schedule that is no time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {0:?} is not of the form 2030-01-02T15:04:05Z")]
pub struct BadSchedule(String);

/// Reads a schedule: a date and a time in UTC, to the second.
pub fn schedule(text: &str) -> Result<Timestamp, BadSchedule> {
    let bad = || BadSchedule(text.to_owned());
    let civil = DateTime::strptime("%Y-%m-%dT%H:%M:%SZ", text).map_err(|_| bad())?;
    // The parser forgives a missing zero; a schedule that is written otherwise than it is read back is not one.
    let time = civil.to_zoned(TimeZone::UTC).map_err(|_| bad())?.timestamp();
    if time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() == text {
        Ok(time)
    } else {
        Err(bad())
    }
}

#[cfg(test)]
mod tests {
    use super::schedule;

    #[test]
    fn a_schedule_is_a_time_in_utc_to_the_second() {
        assert_eq!(schedule("1970-01-02T00:00:01Z").unwrap().as_second(), 86_401);
        for bad in [
            "",
            "tomorrow",
            "1970-01-02",
            "1970-01-02T00:00:01",
            "1970-01-02T00:00:01+01:00",
            "1970-1-02T00:00:01Z",
            "1970-02-30T00:00:00Z",
        ] {
            assert!(schedule(bad).is_err(), "{bad}");
        }
    }
}
