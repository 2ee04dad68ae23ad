//! Due and missed schedule times of a CronJob.

use std::time::Duration;

use k3_api::{
    cron::{LoadLocationError, ParseError, Schedule, TimeZone, load_location},
    time::Time,
};
use k8s_openapi::jiff::Timestamp;

use crate::objects::CronJob;

/// Added to the requeue delay, so that the sync happens after the schedule time (nextScheduleDelta).
const SCHEDULE_DELTA: Duration = Duration::from_millis(100);

/// Above this number of missed times the event TooManyMissedTimes is recorded.
const TOO_MANY_MISSED: i64 = 100;

/// The parsed schedule and time zone of a CronJob.
#[derive(Debug)]
pub(super) struct CronSchedule {
    schedule: Schedule,
    zone: TimeZone,
}

/// Why a schedule is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScheduleError {
    #[error("{0}")]
    Zone(#[from] LoadLocationError),
    #[error("{0}")]
    Schedule(#[from] ParseError),
}

/// A schedule without future times.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NoFutureTimes;

/// Schedule times since the last job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedTimes {
    /// Start of the interval.
    since: Timestamp,
    /// The latest missed time.
    pub last: Option<Timestamp>,
    /// Approximate number of missed times, if more than one.
    times: i64,
}

/// Schedule times before this one are not missed.
fn last_schedule_time(cron: &CronJob) -> Timestamp {
    // A server sets creationTimestamp. Without one, like upstream, the beginning of time.
    let created = cron.metadata.creation_timestamp.unwrap_or_default();
    cron.status.last_schedule_time.unwrap_or(created)
}

// --- CronSchedule ---

impl CronSchedule {
    /// Parses schedule and time zone. A zone in the schedule (TZ=) takes precedence over spec.timeZone.
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go formatSchedule
    pub(super) fn new(cron: &CronJob) -> Result<Self, ScheduleError> {
        let zone = load_location(cron.spec.time_zone.as_deref().unwrap_or(""))?;
        Ok(CronSchedule {
            schedule: cron.spec.schedule.parse()?,
            zone,
        })
    }

    /// Missed times, without those before startingDeadlineSeconds.
    // upstream: pkg/controller/cronjob/utils.go mostRecentScheduleTime
    pub(super) fn missed_within_deadline(
        &self,
        cron: &CronJob,
        now: Timestamp,
    ) -> Result<MissedTimes, NoFutureTimes> {
        let mut since = last_schedule_time(cron);
        if let Some(seconds) = cron.spec.starting_deadline_seconds {
            since = since.max(Timestamp::from_second(now.as_second() - seconds).unwrap_or(since));
        }
        self.missed_since(since, now)
    }

    fn missed_since(&self, since: Timestamp, now: Timestamp) -> Result<MissedTimes, NoFutureTimes> {
        let none = MissedTimes {
            since,
            last: None,
            times: 0,
        };
        let first = self.next(since).ok_or(NoFutureTimes)?;
        if now < first {
            return Ok(none);
        }
        let second = self.next(first);
        if second.is_some_and(|second| now < second) {
            return Ok(MissedTimes {
                last: Some(first),
                ..none
            });
        }
        let apart = second.map_or(0, |second| second.as_second() - first.as_second());
        if apart < 1 {
            return Err(NoFutureTimes);
        }
        let times = (now.as_second() - first.as_second()) / apart + 1;
        // For irregular schedules this may be slightly early.
        let near = first.as_second() + (times - 2) * apart;
        let mut last = None;
        let mut next = Timestamp::from_second(near).ok().and_then(|near| self.next(near));
        while let Some(time) = next.filter(|time| *time <= now) {
            last = Some(time);
            next = self.next(time);
        }
        Ok(MissedTimes { since, last, times })
    }

    /// Time until the next job is due.
    // upstream: pkg/controller/cronjob/utils.go nextScheduleTimeDuration
    pub(super) fn wait(&self, cron: &CronJob, now: Timestamp) -> Option<Duration> {
        let from = match self.missed_since(last_schedule_time(cron), now) {
            Ok(MissedTimes { last: Some(last), .. }) => last,
            Ok(MissedTimes { since, times: 0, .. }) => since,
            Ok(_) | Err(NoFutureTimes) => now,
        };
        let due = self.next(from)?.as_nanosecond() - now.as_nanosecond();
        let late = i128::try_from(SCHEDULE_DELTA.as_nanos()).unwrap_or(0);
        Some(Duration::from_nanos(u64::try_from(due + late).unwrap_or(0)))
    }

    /// A time in the CronJob's zone.
    pub(super) fn format_in_zone(&self, cron: &CronJob, time: Timestamp) -> String {
        let offset = match &cron.spec.time_zone {
            Some(_) => i64::from(self.zone.to_offset(time).seconds()),
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

// --- MissedTimes ---

impl MissedTimes {
    /// Whether too many times were missed.
    pub(super) fn is_too_many(&self) -> bool {
        self.times > TOO_MANY_MISSED
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cron(spec: &Value, last: Option<&str>) -> CronJob {
        let written = "2026-01-01T10:00:30Z";
        serde_json::from_value(json!({
            "metadata": {"name": "c", "creationTimestamp": written}, "spec": spec, "status": {"lastScheduleTime": last},
        }))
        .unwrap()
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    #[test]
    fn finds_missed_and_next_times() {
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
            let schedule = CronSchedule::new(&cron).unwrap();
            let found = schedule.missed_within_deadline(&cron, at(now)).unwrap();
            assert_eq!(found.last, missed.map(at), "{cron:?}");
            assert_eq!(found.is_too_many(), many, "{cron:?}");
            let waited = schedule.wait(&cron, at(now)).unwrap();
            assert!((waited.as_secs_f64() - wait).abs() < 0.001, "{waited:?} {cron:?}");
        }
    }

    #[test]
    fn rejects_schedules_without_future_times() {
        let cron = cron(&json!({"schedule": "59 23 31 2 *"}), None);
        let schedule = CronSchedule::new(&cron).unwrap();
        let now = at("2026-06-01T00:00:00Z");
        assert_eq!(schedule.missed_within_deadline(&cron, now), Err(NoFutureTimes));
        assert_eq!(schedule.wait(&cron, now), None);
    }

    #[test]
    fn formats_times_in_the_cron_job_zone() {
        for (zone, shown) in [
            (None, "2026-01-02T00:00:00Z"),
            (Some("Asia/Tokyo"), "2026-01-02T09:00:00+09:00"),
            (Some("America/St_Johns"), "2026-01-01T20:30:00-03:30"),
            (Some("Europe/London"), "2026-01-02T00:00:00Z"),
        ] {
            let cron = cron(&json!({"schedule": "* * * * *", "timeZone": zone}), None);
            let schedule = CronSchedule::new(&cron).unwrap();
            assert_eq!(schedule.format_in_zone(&cron, at("2026-01-02T00:00:00Z")), shown);
        }
        let lost = cron(&json!({"schedule": "* * * * *", "timeZone": "Mars/Phobos"}), None);
        let error = CronSchedule::new(&lost).unwrap_err();
        assert_eq!(error.to_string(), "unknown time zone Mars/Phobos");
    }
}
