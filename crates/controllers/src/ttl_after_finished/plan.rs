//! How long a job that has finished is kept.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::objects::Job;

/// How long a job is to be kept yet; nothing if its time is over, `None` if it is kept until something else happens to it.
pub(super) fn time_left(job: &Job, now: Timestamp) -> Option<Duration> {
    if job.metadata.is_going() {
        return None;
    }
    Some(span(ends(job)? - now.as_nanosecond()))
}

/// For how long its time is over; `None` if it has none.
pub(super) fn late(job: &Job, now: Timestamp) -> Option<Duration> {
    Some(span(now.as_nanosecond() - ends(job)?))
}

/// When its time is over, in nanoseconds.
fn ends(job: &Job) -> Option<i128> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let finished = job.finished()?.last_transition_time?;
    Some(finished.as_nanosecond() + i128::from(seconds) * 1_000_000_000)
}

/// Nanoseconds as a time; nothing if they are below zero.
fn span(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_is_kept_for_a_time_after_its_end() {
        let finished = |how: &str| json!([{"type": how, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let going = "2026-01-01T00:00:01Z";
        for (metadata, ttl, conditions, now, left) in [
            (
                json!({}),
                json!(10),
                finished("Complete"),
                "2026-01-01T00:00:04.5Z",
                Some(5.5),
            ),
            (
                json!({}),
                json!(10),
                finished("Failed"),
                "2026-01-01T00:00:10Z",
                Some(0.0),
            ),
            (
                json!({}),
                json!(0),
                finished("Failed"),
                "2026-01-01T00:00:00Z",
                Some(0.0),
            ),
            (
                json!({}),
                json!(10),
                finished("FailureTarget"),
                "2026-01-01T01:00:10Z",
                None,
            ),
            (
                json!({}),
                json!(null),
                finished("Failed"),
                "2026-01-01T01:00:10Z",
                None,
            ),
            (
                json!({"deletionTimestamp": going}),
                json!(0),
                finished("Failed"),
                "2026-01-01T01:00:10Z",
                None,
            ),
        ] {
            let spec = json!({"ttlSecondsAfterFinished": ttl});
            let job = json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
            let job: Job = serde_json::from_value(job).unwrap();
            let left = left.map(Duration::from_secs_f64);
            assert_eq!(time_left(&job, now.parse().unwrap()), left, "{job:?}");
        }
    }
}
