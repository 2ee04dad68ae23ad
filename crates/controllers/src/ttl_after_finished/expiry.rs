//! Expiry time of a finished Job.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::objects::Job;

/// Time until a job expires; zero if it has expired, `None` if it does not expire.
// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go timeLeft
pub(super) fn time_left(job: &Job, now: Timestamp) -> Option<Duration> {
    if job.metadata.is_going() {
        return None;
    }
    Some(saturating_duration(expire_time(job)? - now.as_nanosecond()))
}

/// Time since a job expired; `None` if it does not expire.
pub(super) fn expired_since(job: &Job, now: Timestamp) -> Option<Duration> {
    Some(saturating_duration(now.as_nanosecond() - expire_time(job)?))
}

/// Expiry time in nanoseconds.
// upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go getFinishAndExpireTime
fn expire_time(job: &Job) -> Option<i128> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let finished = job.finished()?.last_transition_time?;
    Some(finished.as_nanosecond() + i128::from(seconds) * 1_000_000_000)
}

/// Nanoseconds as a duration; zero if negative.
fn saturating_duration(nanos: i128) -> Duration {
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
