//! What is to be done about a cron job.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::schedule::{BadTimetable, Timetable};
use crate::{
    event_message::EventMessage,
    objects::{ConcurrencyPolicy, CronJob, CronJobStatus, Job, JobReference, Meta},
    patch_values::list,
    resource::{CRON_JOBS, JOBS},
};

/// The annotation that says for which time a job is.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// What is to be done.
#[derive(Debug)]
pub(super) enum Decision {
    /// Nothing until the cron job changes.
    Rest,
    /// Nothing for this time.
    Wait(Option<Duration>),
    /// A job is to begin.
    Start(Start),
}

/// A job that is to begin.
#[derive(Debug)]
pub(super) struct Start {
    /// The time for which it is.
    pub time: Timestamp,
    /// The job.
    pub job: Value,
    /// Its name.
    pub name: String,
    /// Those that it replaces.
    pub replaces: Vec<JobReference>,
    /// How long it is from its beginning to the next.
    pub wait: Option<Duration>,
}

// --- Decision ---

impl Decision {
    /// What is to be done about a cron job with a status, and what people are told.
    pub(super) fn new(
        cron: &CronJob,
        now: Timestamp,
        news: &mut Vec<EventMessage>,
    ) -> serde_json::Result<Self> {
        let spec = &cron.spec;
        if cron.metadata.is_going() {
            return Ok(Decision::Rest);
        }
        let timetable = Timetable::new(cron);
        if let Err(BadTimetable::Zone(error)) = &timetable {
            let zone = spec.time_zone.as_deref().unwrap_or_default();
            news.push(EventMessage::warning(
                "UnknownTimeZone",
                format_args!("invalid timeZone: {zone:?}: {error}"),
            ));
            return Ok(Decision::Rest);
        }
        if spec.suspend == Some(true) {
            return Ok(Decision::Rest);
        }
        let schedule = &spec.schedule;
        if schedule.contains("TZ") {
            let message = format!(
                "CRON_TZ or TZ used in schedule {schedule:?} is not officially supported, see \
                 https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            );
            news.push(EventMessage::warning("UnsupportedSchedule", message));
        }
        let timetable = match timetable {
            Ok(timetable) => timetable,
            Err(error) => {
                let message = format!("unparseable schedule: {schedule:?} : {error}");
                news.push(EventMessage::warning("UnparseableSchedule", message));
                return Ok(Decision::Rest);
            }
        };
        let missed = match timetable.missed(cron, now, true) {
            Ok(missed) => missed,
            Err(error) => {
                let message = format!("invalid schedule: {schedule} : {error}");
                news.push(EventMessage::warning("InvalidSchedule", message));
                return Ok(Decision::Rest);
            }
        };
        let Some(time) = missed.last else {
            return Ok(Decision::Wait(timetable.wait(cron, now)));
        };
        if missed.is_too_much() {
            let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            news.push(EventMessage::warning("TooManyMissedTimes", message));
        }
        if !Self::begins(cron, time, news) {
            return Ok(Decision::Wait(timetable.wait(cron, now)));
        }
        let replaces = match spec.concurrency_policy {
            ConcurrencyPolicy::Replace => cron.status.active.clone(),
            ConcurrencyPolicy::Allow | ConcurrencyPolicy::Forbid => Vec::new(),
        };
        let mut begun = cron.clone();
        begun.status.last_schedule_time = Some(time);
        Ok(Decision::Start(Start {
            time,
            job: job(cron, time, &timetable)?,
            name: job_name(cron, time),
            replaces,
            wait: timetable.wait(&begun, now),
        }))
    }

    /// Whether a job begins that was due.
    fn begins(cron: &CronJob, time: Timestamp, news: &mut Vec<EventMessage>) -> bool {
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
            news.push(EventMessage::normal("JobAlreadyActive", message));
            return false;
        }
        true
    }
}

/// The name of the job for a time: the same, however often it is made.
fn job_name(cron: &CronJob, time: Timestamp) -> String {
    format!("{}-{}", cron.metadata.name, time.as_second().div_euclid(60))
}

/// The time for which a job of a cron job was made, if it was made for one.
pub(super) fn time_of(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let time = job.metadata.annotation(SCHEDULED)?.parse().ok()?;
    (*job.metadata.name == *job_name(cron, time)).then_some(time)
}

/// The job for a time.
fn job(cron: &CronJob, time: Timestamp, timetable: &Timetable) -> serde_json::Result<Value> {
    let template = cron.spec.job_template.parts()?;
    let mut annotations = template.metadata.annotations;
    annotations.insert(SCHEDULED.into(), timetable.shown(cron, time).into());
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

/// How the list of active jobs names a job.
pub(super) fn reference(job: &Meta) -> JobReference {
    JobReference {
        kind: (&*JOBS.kind).into(),
        api_version: JOBS.api_version().into(),
        namespace: job.namespace.clone(),
        name: job.name.clone(),
        uid: job.uid.clone(),
        resource_version: job.resource_version.clone(),
    }
}

/// The jobs that have finished and of which more are kept than wanted, the oldest first.
pub(super) fn outlived(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<Arc<Job>> {
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
        // Those that never began are the youngest.
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

/// What jobs that have finished change about a status.
pub(super) fn see_finished(status: &mut CronJobStatus, jobs: &[Arc<Job>], news: &mut Vec<EventMessage>) {
    for job in jobs {
        let Some(how) = job.finished() else { continue };
        let before = status.active.len();
        status.active.retain(|active| active.uid != job.metadata.uid);
        if status.active.len() < before {
            let (name, kind) = (&job.metadata.name, &how.kind);
            let message = format!("Saw completed job: {name}, condition: {kind}");
            news.push(EventMessage::normal("SawCompletedJob", message));
        }
        if job.has_succeeded() {
            status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
        }
    }
}

/// The patch that makes a status so, if nobody was faster.
pub(super) fn patch(status: &CronJobStatus, version: &str) -> Value {
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
        let mut news = Vec::new();
        let decision = Decision::new(cron, now.parse().unwrap(), &mut news).unwrap();
        let text = match decision {
            Decision::Rest => "rest".to_owned(),
            Decision::Wait(wait) => format!("wait {}", wait.unwrap().as_secs()),
            Decision::Start(start) => format!(
                "start {}, replace {}, wait {}",
                start.name,
                start.replaces.len(),
                start.wait.unwrap().as_secs()
            ),
        };
        (text, news)
    }

    #[test]
    fn a_job_begins_when_it_is_due_unless_something_speaks_against_it() {
        let runs = json!({"active": [{"name": "c-1", "uid": "j1"}]});
        for (spec, status, now, decision, news) in [
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
            let (decided, told) = decide(&cron, now);
            assert_eq!(decided, decision, "{cron:?}");
            assert_eq!(told, Vec::from_iter(news), "{cron:?}");
        }
    }

    #[test]
    fn a_job_is_as_the_template_says_and_knows_its_time() {
        let cron = cron(
            json!({"schedule": "* * * * *", "timeZone": "Asia/Tokyo"}),
            &json!({}),
        );
        let timetable = Timetable::new(&cron).unwrap();
        let job = job(&cron, "2026-01-01T11:00:00Z".parse().unwrap(), &timetable).unwrap();
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
    fn the_oldest_jobs_go_when_there_are_too_many() {
        let jobs = [
            job_of("d", Some("2026-01-01T04:00:00Z"), Some("Complete"), None),
            job_of("b", Some("2026-01-01T02:00:00Z"), Some("Complete"), None),
            job_of("c", Some("2026-01-01T02:00:00Z"), Some("Complete"), None),
            job_of("e", None, Some("Complete"), None),
            job_of("f", Some("2026-01-01T01:00:00Z"), Some("Failed"), None),
            job_of("g", Some("2026-01-01T01:00:00Z"), None, None),
        ];
        for (limits, gone) in [
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
            let outlived = outlived(&cron, &jobs);
            let names: Vec<_> = outlived.iter().map(|job| &*job.metadata.name).collect();
            assert_eq!(names, gone);
        }
    }

    #[test]
    fn jobs_that_have_finished_are_not_active_any_more() {
        let jobs = [
            job_of("a", None, Some("Complete"), Some("2026-01-01T04:00:00Z")),
            job_of("b", None, Some("Failed"), None),
            job_of("c", None, None, None),
            job_of("d", None, Some("Complete"), Some("2026-01-01T03:00:00Z")),
        ];
        let active = ["a", "b", "c"].map(|name| json!({"name": name, "uid": name}));
        let mut status = cron(json!({}), &json!({"active": active})).status;
        let mut news = Vec::new();
        see_finished(&mut status, &jobs, &mut news);
        assert_eq!(status.active.len(), 1);
        assert_eq!(
            status.last_successful_time,
            Some("2026-01-01T04:00:00Z".parse().unwrap())
        );
        assert_eq!(
            news,
            [
                EventMessage::normal("SawCompletedJob", "Saw completed job: a, condition: Complete"),
                EventMessage::normal("SawCompletedJob", "Saw completed job: b, condition: Failed"),
            ]
        );
    }
}
