//! Computes the next activation of a schedule.

// upstream: vendor/github.com/robfig/cron/v3/spec.go Next, dayMatches

use jiff::civil::DateTime;
use k3_cel::calendar::{civil_time, utc_offset};
use k3_duration::Duration;

use super::{Crontab, Schedule, TimeZone};
use crate::time::Time;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// A schedule that does not fit for so many years never will.
const YEARS: i64 = 5;

/// A time, and what clocks show at it.
struct WallClock<'z> {
    zone: &'z TimeZone,
    /// Since 1970.
    at: i64,
    /// Seconds ahead of UTC.
    offset: i64,
}

// --- Schedule ---

impl Schedule {
    /// The first time after another; `None` if there is none for years. The fields mean what clocks show in the zone,
    /// unless the schedule names one itself.
    pub fn next(&self, after: Time, zone: &TimeZone) -> Option<Time> {
        match self {
            Schedule::Every(delay) => {
                let whole = Duration::from_nanos(delay.nanos() - i64::from(after.nanos()));
                Some(after.plus(whole))
            }
            Schedule::Crontab(crontab) => {
                let zone = crontab.zone.as_ref().unwrap_or(zone);
                let at = crontab.next(after.unix_seconds() + 1, zone)?;
                Some(Time::from_unix(at, 0))
            }
        }
    }
}

// --- Crontab ---

impl Crontab {
    /// The first time from this second on.
    ///
    /// Moves from the largest field to the smallest; one that does not fit is moved on until it does, with all smaller
    /// ones from their beginning. When it runs over, the larger ones are asked again. At hours that are skipped or
    /// occur twice this does what the schedules of crontabs in Go programs do, to the minute.
    fn next(&self, from: i64, zone: &TimeZone) -> Option<i64> {
        let mut clock = WallClock::new(from, zone);
        let last = clock.year() + YEARS;
        // Whether the smaller fields have restarted.
        let mut begun = false;
        'again: while clock.year() <= last {
            while !self.month.has(clock.civil().month().into()) {
                let civil = clock.civil();
                begun = true;
                let days_left = civil.date().days_in_month() - civil.day();
                clock.show(clock.day() + i64::from(days_left) + 1, 0);
                if clock.civil().month() == 1 {
                    continue 'again;
                }
            }
            while !self.has_day(clock.civil()) {
                if !begun {
                    begun = true;
                    clock.show(clock.day(), 0);
                }
                clock.show(clock.day() + 1, clock.second_of_day());
                // Where midnight is skipped, clocks show another hour now.
                match clock.hour() {
                    0 => {}
                    hour @ 13.. => clock.pass((24 - hour) * HOUR),
                    hour => clock.pass(-hour * HOUR),
                }
                if clock.civil().day() == 1 {
                    continue 'again;
                }
            }
            while !self.hour.has(clock.hour()) {
                if !begun {
                    begun = true;
                    clock.show(clock.day(), clock.hour() * HOUR);
                }
                clock.pass(HOUR);
                if clock.hour() == 0 {
                    continue 'again;
                }
            }
            while !self.minute.has(clock.second_of_day() / MINUTE % 60) {
                if !begun {
                    begun = true;
                    clock.pass(-clock.at.rem_euclid(MINUTE));
                }
                clock.pass(MINUTE);
                if clock.second_of_day() / MINUTE % 60 == 0 {
                    continue 'again;
                }
            }
            match clock.second_of_day() % MINUTE {
                0 => return Some(clock.at),
                second => {
                    begun = true;
                    clock.pass(MINUTE - second);
                }
            }
        }
        None
    }

    fn has_day(&self, civil: DateTime) -> bool {
        let of_month = self.day.has(civil.day().into());
        let of_week = self.weekday.has(civil.weekday().to_sunday_zero_offset().into());
        if self.day.open || self.weekday.open {
            of_month && of_week
        } else {
            of_month || of_week
        }
    }
}

// --- WallClock ---

impl<'z> WallClock<'z> {
    fn new(at: i64, zone: &'z TimeZone) -> Self {
        let offset = utc_offset(zone, at);
        WallClock { zone, at, offset }
    }

    /// Moves to the time at which clocks show this second of a day. Where clocks are put forward or back, the time is
    /// the one of two that `time.Date` of Go's standard library returns.
    fn show(&mut self, day: i64, second: i64) {
        let shown = day * DAY + second;
        let near = shown - utc_offset(self.zone, shown);
        *self = Self::new(shown - utc_offset(self.zone, near), self.zone);
    }

    /// Moves by seconds, forwards or backwards.
    fn pass(&mut self, seconds: i64) {
        *self = Self::new(self.at + seconds, self.zone);
    }

    fn shown(&self) -> i64 {
        self.at + self.offset
    }

    fn day(&self) -> i64 {
        self.shown().div_euclid(DAY)
    }

    /// The date clocks show; its year is known to [`Self::year`] only.
    fn civil(&self) -> DateTime {
        civil_time(self.shown()).1
    }

    fn year(&self) -> i64 {
        civil_time(self.shown()).0
    }

    fn second_of_day(&self) -> i64 {
        self.shown().rem_euclid(DAY)
    }

    fn hour(&self) -> i64 {
        self.second_of_day() / HOUR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, after: &str) -> String {
        let schedule: Schedule = schedule.parse().unwrap();
        let after = Time::parse(after).unwrap();
        let next = schedule.next(after, &crate::cron::load_location(zone).unwrap());
        next.map_or_else(|| "never".to_owned(), |next| next.to_string())
    }

    #[test]
    fn the_next_time_is_the_first_that_fits() {
        for (schedule, after, time) in [
            ("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
            ("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z"),
            ("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z"),
            ("*/5 * * * *", "2012-07-09T23:59:51Z", "2012-07-10T00:00:00Z"),
            ("0 0 9 apr-oct *", "2012-07-09T23:35:00Z", "2012-08-09T00:00:00Z"),
            ("0 0 */5 oct mon", "2012-07-09T23:35:00Z", "2012-10-01T00:00:00Z"),
            ("0 0 1 1 *", "2012-07-09T23:35:00Z", "2013-01-01T00:00:00Z"),
            ("0 0 29 2 *", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z"),
            ("0 0 1,15 * sun", "2012-07-09T00:00:00Z", "2012-07-15T00:00:00Z"),
            ("0 0 13 * fri", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z"),
            ("0 0 31 2 *", "2012-07-09T23:35:00Z", "never"),
            ("@every 90s", "2012-07-09T23:35:00.5Z", "2012-07-09T23:36:30Z"),
            ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            (
                "TZ=Asia/Tokyo 0 9 * * *",
                "2026-01-01T00:00:00Z",
                "2026-01-02T00:00:00Z",
            ),
        ] {
            assert_eq!(next(schedule, "UTC", after), time, "{schedule} {after}");
        }
    }

    #[test]
    fn handles_hours_skipped_or_repeated_by_daylight_saving() {
        let york = "America/New_York";
        for (schedule, after, time) in [
            // Clocks go from 2 to 3 on 2012-03-11.
            ("0 * * * *", "2012-03-11T00:00:00-05:00", "2012-03-11T06:00:00Z"),
            ("0 * * * *", "2012-03-11T01:00:00-05:00", "2012-03-11T07:00:00Z"),
            ("0 2 * * *", "2012-03-11T00:00:00-05:00", "2012-03-12T06:00:00Z"),
            (
                "30 2 11 mar ?",
                "2012-03-11T00:00:00-05:00",
                "2013-03-11T06:30:00Z",
            ),
            // Clocks go from 2 to 1 on 2012-11-04.
            ("0 1 * * *", "2012-11-04T00:00:00-04:00", "2012-11-04T05:00:00Z"),
            ("0 1 * * *", "2012-11-04T01:00:00-04:00", "2012-11-04T06:00:00Z"),
            ("0 * * * *", "2012-11-04T01:00:00-04:00", "2012-11-04T06:00:00Z"),
            ("0 3 * * *", "2012-11-04T01:00:00-05:00", "2012-11-04T08:00:00Z"),
        ] {
            assert_eq!(next(schedule, york, after), time, "{schedule} {after}");
        }
        assert_eq!(
            next("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00"),
            "2018-11-05T02:00:00Z"
        );
    }
}
