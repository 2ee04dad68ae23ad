//! When it is time for a job, and when it was.

use std::time::Duration;

use k3_api::{
    cron::{ParseError, Schedule, Zone, ZoneError},
    time::Time,
};
use k8s_openapi::jiff::Timestamp;

use crate::objects::CronJob;

/// Clocks differ: a look that comes a little late sees that it is time.
const LATE: Duration = Duration::from_millis(100);

/// More missed times than these are too many to be meant.
const MANY: i64 = 100;

/// The schedule of a cron job.
#[derive(Debug)]
pub(super) struct Timetable {
    schedule: Schedule,
    zone: Zone,
}

/// Why a cron job has no timetable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTimetable {
    /// Nobody knows its zone.
    #[error("{0}")]
    Zone(#[from] ZoneError),
    /// Its schedule cannot be read.
    #[error("{0}")]
    Schedule(#[from] ParseError),
}

/// A schedule that never comes true, or is over.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct Never;

/// What was missed since the last job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    /// Since when.
    since: Timestamp,
    /// The last time at which a job was due.
    pub last: Option<Timestamp>,
    /// How many times there were, roughly, if more than one.
    times: i64,
}

// --- Timetable ---

impl Timetable {
    /// The timetable of a cron job. A zone within the schedule goes before the one beside it.
    pub(super) fn new(cron: &CronJob) -> Result<Self, BadTimetable> {
        let zone = Zone::named(cron.spec.time_zone.as_deref().unwrap_or(""))?;
        Ok(Timetable {
            schedule: cron.spec.schedule.parse()?,
            zone,
        })
    }

    /// What was missed. With `deadline`, what is too late for the cron job was not.
    pub(super) fn missed(&self, cron: &CronJob, now: Timestamp, deadline: bool) -> Result<Missed, Never> {
        let made = cron.metadata.creation_timestamp.unwrap_or_default();
        let mut since = cron.status.last_schedule_time.unwrap_or(made);
        if let Some(seconds) = cron.spec.starting_deadline_seconds.filter(|_| deadline) {
            since = since.max(Timestamp::from_second(now.as_second() - seconds).unwrap_or(since));
        }
        let none = Missed {
            since,
            last: None,
            times: 0,
        };
        let first = self.next(since).ok_or(Never)?;
        if now < first {
            return Ok(none);
        }
        let second = self.next(first);
        if second.is_some_and(|second| now < second) {
            return Ok(Missed {
                last: Some(first),
                ..none
            });
        }
        let apart = second.map_or(0, |second| second.as_second() - first.as_second());
        if apart < 1 {
            return Err(Never);
        }
        let times = (now.as_second() - first.as_second()) / apart + 1;
        // Where times are not evenly apart, this may be a little early.
        let near = first.as_second() + (times - 2) * apart;
        let mut last = None;
        let mut next = Timestamp::from_second(near).ok().and_then(|near| self.next(near));
        while let Some(time) = next.filter(|time| *time <= now) {
            last = Some(time);
            next = self.next(time);
        }
        Ok(Missed { since, last, times })
    }

    /// How long it is until the next job is due.
    pub(super) fn wait(&self, cron: &CronJob, now: Timestamp) -> Option<Duration> {
        let from = match self.missed(cron, now, false) {
            Ok(Missed { last: Some(last), .. }) => last,
            Ok(Missed { since, times: 0, .. }) => since,
            Ok(_) | Err(Never) => now,
        };
        let due = self.next(from)?.as_nanosecond() - now.as_nanosecond();
        let late = i128::try_from(LATE.as_nanos()).unwrap_or(0);
        Some(Duration::from_nanos(u64::try_from(due + late).unwrap_or(0)))
    }

    /// A time as clocks of the cron job's zone show it.
    pub(super) fn shown(&self, cron: &CronJob, time: Timestamp) -> String {
        let offset = match &cron.spec.time_zone {
            Some(_) => self.zone.span(time.as_second()).offset,
            None => 0,
        };
        let shown = Time::from_unix(time.as_second() + offset, 0).to_string();
        if offset == 0 {
            return shown;
        }
        let sign = if offset < 0 { '-' } else { '+' };
        let minutes = offset.abs() / 60;
        let shown = shown.trim_end_matches('Z');
        format!("{shown}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let nanos = u32::try_from(after.subsec_nanosecond()).unwrap_or(0);
        let after = Time::from_unix(after.as_second(), nanos);
        let next = self.schedule.next(after, &self.zone)?;
        Timestamp::from_second(next.unix_seconds()).ok()
    }
}

// --- Missed ---

impl Missed {
    /// Whether there were too many times to be meant.
    pub(super) fn is_too_much(&self) -> bool {
        self.times > MANY
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cron(spec: &Value, last: Option<&str>) -> CronJob {
        let made = "2026-01-01T10:00:30Z";
        serde_json::from_value(json!({
            "metadata": {"name": "c", "creationTimestamp": made}, "spec": spec, "status": {"lastScheduleTime": last},
        }))
        .unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn the_last_missed_time_is_found_and_the_next_one_awaited() {
        for (spec, last, now, missed, many, wait) in [
            // Not yet.
            (
                json!({"schedule": "0 * * * *"}),
                None,
                "2026-01-01T10:59:59Z",
                None,
                false,
                1.1,
            ),
            // Now.
            (
                json!({"schedule": "0 * * * *"}),
                None,
                "2026-01-01T11:00:00Z",
                Some("2026-01-01T11:00:00Z"),
                false,
                3600.1,
            ),
            // Now, and done.
            (
                json!({"schedule": "0 * * * *"}),
                Some("2026-01-01T11:00:00Z"),
                "2026-01-01T11:00:10Z",
                None,
                false,
                3590.1,
            ),
            // A few were missed.
            (
                json!({"schedule": "0 * * * *"}),
                None,
                "2026-01-01T14:30:00Z",
                Some("2026-01-01T14:00:00Z"),
                false,
                1800.1,
            ),
            // Very many.
            (
                json!({"schedule": "* * * * *"}),
                None,
                "2026-01-03T14:30:00Z",
                Some("2026-01-03T14:30:00Z"),
                true,
                60.1,
            ),
            // Very many, but for most of them it is too late.
            (
                json!({"schedule": "* * * * *", "startingDeadlineSeconds": 120}),
                None,
                "2026-01-03T14:30:30Z",
                Some("2026-01-03T14:30:00Z"),
                false,
                30.1,
            ),
            // It is too late for all.
            (
                json!({"schedule": "0 * * * *", "startingDeadlineSeconds": 60}),
                None,
                "2026-01-01T11:30:00Z",
                None,
                false,
                1800.1,
            ),
            // Times that are not evenly apart.
            (
                json!({"schedule": "30 6-16/4 * * 1-5"}),
                None,
                "2026-01-05T15:00:00Z",
                Some("2026-01-05T14:30:00Z"),
                false,
                55_800.1,
            ),
            // From when it was made on.
            (
                json!({"schedule": "@every 1h"}),
                None,
                "2026-01-01T13:30:00Z",
                Some("2026-01-01T13:00:30Z"),
                false,
                1830.1,
            ),
            // As clocks show it elsewhere.
            (
                json!({"schedule": "0 9 * * *", "timeZone": "Asia/Tokyo"}),
                None,
                "2026-01-02T00:00:00Z",
                Some("2026-01-02T00:00:00Z"),
                false,
                86_400.1,
            ),
        ] {
            let cron = cron(&spec, last);
            let timetable = Timetable::new(&cron).unwrap();
            let found = timetable.missed(&cron, at(now), true).unwrap();
            assert_eq!(found.last, missed.map(at), "{cron:?}");
            assert_eq!(found.is_too_much(), many, "{cron:?}");
            let waited = timetable.wait(&cron, at(now)).unwrap();
            assert!((waited.as_secs_f64() - wait).abs() < 0.001, "{waited:?} {cron:?}");
        }
    }

    #[test]
    fn a_day_that_never_comes_is_an_error() {
        let cron = cron(&json!({"schedule": "59 23 31 2 *"}), None);
        let timetable = Timetable::new(&cron).unwrap();
        let now = at("2026-06-01T00:00:00Z");
        assert_eq!(timetable.missed(&cron, now, true), Err(Never));
        assert_eq!(timetable.wait(&cron, now), None);
    }

    #[test]
    fn a_time_is_shown_in_the_zone_of_the_cron_job() {
        for (zone, shown) in [
            (None, "2026-01-02T00:00:00Z"),
            (Some("Asia/Tokyo"), "2026-01-02T09:00:00+09:00"),
            (Some("America/St_Johns"), "2026-01-01T20:30:00-03:30"),
            (Some("Europe/London"), "2026-01-02T00:00:00Z"),
        ] {
            let cron = cron(&json!({"schedule": "* * * * *", "timeZone": zone}), None);
            let timetable = Timetable::new(&cron).unwrap();
            assert_eq!(timetable.shown(&cron, at("2026-01-02T00:00:00Z")), shown);
        }
        let lost = cron(&json!({"schedule": "* * * * *", "timeZone": "Mars/Phobos"}), None);
        let error = Timetable::new(&lost).unwrap_err();
        assert_eq!(error.to_string(), "unknown time zone Mars/Phobos");
    }
}
