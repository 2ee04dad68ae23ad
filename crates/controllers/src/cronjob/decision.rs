//! Decides whether a CronJob starts a job.

use std::{sync::Arc, time::Duration};

use k3_workloads::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::schedule::{CronSchedule, ScheduleError};
use crate::{
    event_message::EventMessage,
    objects::{ConcurrencyPolicy, CronJob, CronJobStatus, Job, JobReference},
    patch_values::list,
    resource::{CRON_JOBS, JOBS},
};

/// Annotation with the schedule time of a job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// What to do.
#[derive(Debug)]
pub(super) enum CronJobDecision {
    /// Nothing until the CronJob changes.
    Idle,
    /// Nothing for this time.
    Wait(Option<Duration>),
    /// Start a job.
    JobStart(JobStart),
}

/// A job to start.
#[derive(Debug)]
pub(super) struct JobStart {
    /// Its schedule time.
    pub time: Timestamp,
    pub job: Value,
    pub name: String,
    /// Active jobs to delete first (concurrencyPolicy Replace).
    pub replaces: Vec<JobReference>,
    /// Time from its start to the next one.
    pub wait: Option<Duration>,
}

// --- CronJobDecision ---

impl CronJobDecision {
    /// Decides for a CronJob; adds events to record.
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob
    pub(super) fn new(
        cron: &CronJob,
        now: Timestamp,
        events: &mut Vec<EventMessage>,
    ) -> serde_json::Result<Self> {
        let spec = &cron.spec;
        if cron.metadata.is_terminating() {
            return Ok(CronJobDecision::Idle);
        }
        let cron_schedule = CronSchedule::new(cron);
        if let Err(ScheduleError::Zone(error)) = &cron_schedule {
            let zone = spec.time_zone.as_deref().unwrap_or_default();
            events.push(EventMessage::warning(
                "UnknownTimeZone",
                format_args!("invalid timeZone: {zone:?}: {error}"),
            ));
            return Ok(CronJobDecision::Idle);
        }
        if spec.suspend == Some(true) {
            return Ok(CronJobDecision::Idle);
        }
        let schedule = &spec.schedule;
        if schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            events.push(EventMessage::warning("UnsupportedSchedule", message));
        }
        let cron_schedule = match cron_schedule {
            Ok(cron_schedule) => cron_schedule,
            Err(error) => {
                let message = format!("unparseable schedule: {schedule:?} : {error}");
                events.push(EventMessage::warning("UnparseableSchedule", message));
                return Ok(CronJobDecision::Idle);
            }
        };
        let missed = match cron_schedule.missed_within_deadline(cron, now) {
            Ok(missed) => missed,
            Err(error) => {
                let message = format!("invalid schedule: {schedule} : {error}");
                events.push(EventMessage::warning("InvalidSchedule", message));
                return Ok(CronJobDecision::Idle);
            }
        };
        let Some(time) = missed.last else {
            return Ok(CronJobDecision::Wait(cron_schedule.wait(cron, now)));
        };
        if missed.is_too_many() {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            events.push(EventMessage::warning("TooManyMissedTimes", message));
        }
        if !Self::may_start(cron, time, events) {
            return Ok(CronJobDecision::Wait(cron_schedule.wait(cron, now)));
        }
        let replaces = match spec.concurrency_policy {
            ConcurrencyPolicy::Replace => cron.status.active.clone(),
            ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => Vec::new(),
        };
        let mut begun = cron.clone();
        begun.status.last_schedule_time = Some(time);
        Ok(CronJobDecision::JobStart(JobStart {
            time,
            job: job(cron, time, &cron_schedule)?,
            name: job_name(cron, time),
            replaces,
            wait: cron_schedule.wait(&begun, now),
        }))
    }

    /// Whether a due job may start (startingDeadlineSeconds, concurrencyPolicy).
    // upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob; events JobAlreadyActive and MissSchedule
    fn may_start(cron: &CronJob, time: Timestamp, events: &mut Vec<EventMessage>) -> bool {
        let CronJobStatus {
            active,
            last_schedule_time,
            ..
        } = &cron.status;
        let name = job_name(cron, time);
        if active.iter().any(|job| *job.name == *name) || *last_schedule_time == Some(time) {
            return false;
        }
        if cron.spec.concurrency_policy == ConcurrencyPolicy::Forbid && !active.is_empty() {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            events.push(EventMessage::normal("JobAlreadyActive", message));
            return false;
        }
        true
    }
}

/// The job's name derives from its schedule time, so that it is created once.
// upstream: pkg/controller/cronjob/cronjob_controllerv2.go getJobName
fn job_name(cron: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name, time.as_second().div_euclid(60))
}

/// The schedule time of a job of a CronJob, from its name.
pub(super) fn schedule_time_of(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let time = job.metadata.annotation(SCHEDULED)?.parse().ok()?;
    (*job.metadata.name == *job_name(cron, time)).then_some(time)
}

/// The job for a schedule time.
// upstream: pkg/controller/cronjob/utils.go getJobFromTemplate2
fn job(cron: &CronJob, time: Timestamp, cron_schedule: &CronSchedule) -> serde_json::Result<Value> {
    let template = cron.spec.job_template.parts()?;
    let mut annotations = template.metadata.annotations;
    annotations.insert(SCHEDULED.into(), cron_schedule.format_in_zone(cron, time).into());
    Ok(json!({
        "apiVersion": JOBS.api_version(),
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(cron, time),
            "namespace": cron.metadata.namespace,
            "labels": template.metadata.labels,
            "annotations": annotations,
            "ownerReferences": [cron.metadata.as_controller(&CRON_JOBS)],
        },
        "spec": template.spec,
    }))
}

/// The reference to a job in status.active.
pub(super) fn reference(job: &ObjectMeta) -> JobReference {
    JobReference {
        kind: (&*JOBS.kind).into(),
        api_version: JOBS.api_version().into(),
        namespace: job.namespace.clone(),
        name: job.name.clone(),
        uid: job.uid.clone(),
        resource_version: job.resource_version.clone(),
    }
}

/// Finished jobs beyond the history limits, oldest first.
// upstream: pkg/controller/cronjob/cronjob_controllerv2.go removeOldestJobs
pub(super) fn jobs_beyond_limits(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
    let spec = &cron.spec;
    let mut outlived = Vec::new();
    for (kind, limit) in [
        ("Complete", spec.successful_jobs_history_limit),
        ("Failed", spec.failed_jobs_history_limit),
    ] {
        let Some(limit) = limit else { continue };
        let finished = jobs
            .iter()
            .filter(|job| job.finished().is_some_and(|how| &*how.kind == kind));
        let mut finished: Vec<_> = finished.cloned().collect();
        // Jobs without a start time count as the newest.
        finished.sort_by_key(|job| {
            let start = job.status.start_time;
            (start.is_none(), start, job.metadata.name.clone())
        });
        let keep = usize::try_from(limit).unwrap_or(0);
        finished.truncate(finished.len().saturating_sub(keep));
        outlived.append(&mut finished);
    }
    outlived
}

/// Updates status.active and lastSuccessfulTime for finished jobs.
// upstream: pkg/controller/cronjob/cronjob_controllerv2.go syncCronJob; event SawCompletedJob
pub(super) fn update_finished_jobs(
    status: &mut CronJobStatus,
    jobs: &[Arc<Job>],
    events: &mut Vec<EventMessage>,
) {
    for job in jobs {
        let Some(how) = job.finished() else { continue };
        let before = status.active.len();
        status.active.retain(|active| active.uid != job.metadata.uid);
        if status.active.len() < before {
            let name = &job.metadata.name;
            let kind = &how.kind;
            let message = format!("Saw completed job: {name}, condition: {kind}");
            events.push(EventMessage::normal("SawCompletedJob", message));
        }
        if job.has_succeeded() {
            status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
        }
    }
}

/// The patch for the status at a resourceVersion.
pub(super) fn status_patch(status: &CronJobStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "active": list(&status.active),
            "lastScheduleTime": status.last_schedule_time,
            "lastSuccessfulTime": status.last_successful_time,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(mut spec: Value, status: &Value) -> CronJob {
        let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"parallelism": 2}});
        spec["jobTemplate"] = template;
        let metadata = json!({"name": "c", "namespace": "shop", "uid": "u1", "creationTimestamp": "2026-01-01T10:00:30Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn decide(cron: &CronJob, now: &str) -> (String, Vec<EventMessage>) {
        let mut events = Vec::new();
        let decision = CronJobDecision::new(cron, now.parse().unwrap(), &mut events).unwrap();
        let text = match decision {
            CronJobDecision::Idle => "rest".to_owned(),
            CronJobDecision::Wait(wait) => format!("wait {}", wait.unwrap().as_secs()),
            CronJobDecision::JobStart(start) => format!(
                "start {}, replace {}, wait {}",
                start.name,
                start.replaces.len(),
                start.wait.unwrap().as_secs()
            ),
        };
        (text, events)
    }

    #[test]
    fn starts_due_jobs_unless_policy_forbids() {
        let runs = json!({"active": [{"name": "c-1", "uid": "j1"}]});
        for (spec, status, now, decision, events) in [
            (
                json!({"schedule": "0 * * * *"}),
                json!({}),
                "2026-01-01T10:30:00Z",
                "wait 1800",
                None,
            ),
            (
                json!({"schedule": "0 * * * *"}),
                json!({}),
                "2026-01-01T11:00:00.1Z",
                "start c-29454420, replace 0, wait 3600",
                None,
            ),
            (
                json!({"schedule": "0 * * * *", "suspend": true}),
                json!({}),
                "2026-01-01T11:00:00Z",
                "rest",
                None,
            ),
            (
                json!({"schedule": "0 * * * *", "timeZone": "Nowhere"}),
                json!({}),
                "2026-01-01T11:00:00Z",
                "rest",
                Some(EventMessage::warning(
                    "UnknownTimeZone",
                    r#"invalid timeZone: "Nowhere": unknown time zone Nowhere"#,
                )),
            ),
            (
                json!({"schedule": "0 0 31 2 *"}),
                json!({}),
                "2026-01-01T11:00:00Z",
                "rest",
                Some(EventMessage::warning(
                    "InvalidSchedule",
                    "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second",
                )),
            ),
            (
                json!({"schedule": "0 * * * *", "startingDeadlineSeconds": 10}),
                json!({"lastScheduleTime": "2026-01-01T10:00:00Z"}),
                "2026-01-01T11:00:10.5Z",
                "wait 3589",
                None,
            ),
            (
                json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid"}),
                runs.clone(),
                "2026-01-01T11:00:00Z",
                "wait 3600",
                Some(EventMessage::normal(
                    "JobAlreadyActive",
                    "Not starting job because prior execution is running and concurrency policy is Forbid",
                )),
            ),
            (
                json!({"schedule": "0 * * * *", "concurrencyPolicy": "Replace"}),
                runs.clone(),
                "2026-01-01T11:00:00Z",
                "start c-29454420, replace 1, wait 3600",
                None,
            ),
            (
                json!({"schedule": "0 * * * *"}),
                runs,
                "2026-01-01T11:00:00Z",
                "start c-29454420, replace 0, wait 3600",
                None,
            ),
            (
                json!({"schedule": "0 * * * *"}),
                json!({"active": [{"name": "c-29454420", "uid": "j1"}]}),
                "2026-01-01T11:00:00Z",
                "wait 3600",
                None,
            ),
            (
                json!({"schedule": "* * * * *"}),
                json!({"lastScheduleTime": "2026-01-01T10:01:00Z"}),
                "2026-01-01T12:00:00Z",
                "start c-29454480, replace 0, wait 60",
                Some(EventMessage::warning(
                    "TooManyMissedTimes",
                    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
                )),
            ),
        ] {
            let cron = cron(spec, &status);
            let (decided, reported) = decide(&cron, now);
            assert_eq!(decided, decision, "{cron:?}");
            assert_eq!(reported, Vec::from_iter(events), "{cron:?}");
        }
    }

    #[test]
    fn builds_a_job_with_its_schedule_time() {
        let cron = cron(
            json!({"schedule": "* * * * *", "timeZone": "Asia/Tokyo"}),
            &json!({}),
        );
        let cron_schedule = CronSchedule::new(&cron).unwrap();
        let job = job(&cron, "2026-01-01T11:00:00Z".parse().unwrap(), &cron_schedule).unwrap();
        assert_eq!(
            job,
            json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {
                    "name": "c-29454420", "namespace": "shop", "labels": {"a": "b"},
                    "annotations": {"c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T20:00:00+09:00"},
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u1",
                        "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": {"parallelism": 2},
            })
        );
    }

    fn job_of(name: &str, start: Option<&str>, how: Option<&str>, done: Option<&str>) -> Arc<Job> {
        let conditions = how.map(|how| json!({"type": how, "status": "True"}));
        let conditions: Vec<_> = conditions.into_iter().collect();
        let status = json!({"startTime": start, "completionTime": done, "conditions": conditions});
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status}))
                .unwrap(),
        )
    }

    #[test]
    fn deletes_oldest_jobs_beyond_history_limit() {
        let jobs = [
            job_of("d", Some("2026-01-01T04:00:00Z"), Some("Complete"), None),
            job_of("b", Some("2026-01-01T02:00:00Z"), Some("Complete"), None),
            job_of("c", Some("2026-01-01T02:00:00Z"), Some("Complete"), None),
            job_of("e", None, Some("Complete"), None),
            job_of("f", Some("2026-01-01T01:00:00Z"), Some("Failed"), None),
            job_of("g", Some("2026-01-01T01:00:00Z"), None, None),
        ];
        for (limits, deleted) in [
            (json!({}), vec![]),
            (json!({"successfulJobsHistoryLimit": 2}), vec!["b", "c"]),
            (
                json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}),
                vec!["b", "c", "d", "e", "f"],
            ),
            (
                json!({"successfulJobsHistoryLimit": 9, "failedJobsHistoryLimit": 1}),
                vec![],
            ),
        ] {
            let cron = cron(limits, &json!({}));
            let outlived = jobs_beyond_limits(&cron, &jobs);
            let names: Vec<_> = outlived.iter().map(|job| &*job.metadata.name).collect();
            assert_eq!(names, deleted);
        }
    }

    #[test]
    fn removes_finished_jobs_from_active() {
        let jobs = [
            job_of("a", None, Some("Complete"), Some("2026-01-01T04:00:00Z")),
            job_of("b", None, Some("Failed"), None),
            job_of("c", None, None, None),
            job_of("d", None, Some("Complete"), Some("2026-01-01T03:00:00Z")),
        ];
        let active = ["a", "b", "c"].map(|name| json!({"name": name, "uid": name}));
        let mut status = cron(json!({}), &json!({"active": active})).status;
        let mut events = Vec::new();
        update_finished_jobs(&mut status, &jobs, &mut events);
        assert_eq!(status.active.len(), 1);
        assert_eq!(
            status.last_successful_time,
            Some("2026-01-01T04:00:00Z".parse().unwrap())
        );
        assert_eq!(
            events,
            [
                EventMessage::normal("SawCompletedJob", "Saw completed job: a, condition: Complete"),
                EventMessage::normal("SawCompletedJob", "Saw completed job: b, condition: Failed"),
            ]
        );
    }
}
