//! A Job and its pods at one point in time: counts, indexes, and whether the job has failed or succeeded.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use k3_workloads::{Condition, Pod, PodPhase, RestartPolicy};
use k8s_openapi::jiff::Timestamp;

use super::{
    backoff::{BackoffRecord, finish_time},
    indexes::Indexes,
    pods::{index_failure_count, indexes, is_tracked},
    policy,
};
use crate::objects::{Job, UncountedTerminatedPods};

/// A job with its pods at one point in time.
#[derive(Debug)]
pub(super) struct JobSnapshot<'a> {
    pub job: &'a Job,
    pub pods: &'a [Arc<Pod>],
    pub now: Timestamp,
    /// Active pods.
    pub active: Vec<Arc<Pod>>,
    /// How many of them are ready.
    pub ready: i32,
    /// Number of terminating pods.
    pub terminating: i32,
    /// Number of succeeded pods, or of completed indexes.
    pub succeeded: i32,
    /// Number of failed pods.
    pub failed: i32,
    /// Completed indexes according to the status.
    pub succeeded_indexes_before: Indexes,
    /// Completed indexes.
    pub done: Indexes,
    /// Failed indexes, with backoffLimitPerIndex.
    pub failed_indexes: Option<Indexes>,
    /// Failures since the last success.
    pub failures: BackoffRecord,
    /// By index, the last failed pod that is to be replaced. Its deletion is delayed until then: it carries the failure counts.
    pub to_replace: BTreeMap<u32, Arc<Pod>>,
    /// status.startTime.
    pub start_time: Option<Timestamp>,
    /// Whether and how the job finishes.
    pub end: Option<JobEnd>,
}

/// How a job finishes: the condition SuccessCriteriaMet or FailureTarget now, Complete or Failed after its last pod terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobEnd {
    pub success: bool,
    pub reason: Box<str>,
    pub message: Box<str>,
    /// Whether the status has the condition already.
    pub known: bool,
}

// --- JobEnd ---

impl JobEnd {
    pub(super) fn success(reason: &str, message: &str) -> Self {
        JobEnd {
            success: true,
            reason: reason.into(),
            message: message.into(),
            known: false,
        }
    }

    fn failure(reason: &str, message: &str) -> Self {
        JobEnd {
            success: false,
            ..JobEnd::success(reason, message)
        }
    }

    /// The interim condition while pods terminate, and the final one.
    pub(super) fn conditions(&self) -> [&'static str; 2] {
        if self.success {
            ["SuccessCriteriaMet", "Complete"]
        } else {
            ["FailureTarget", "Failed"]
        }
    }

    /// From the conditions in the status.
    // upstream: pkg/controller/job/job_controller.go findConditionByType
    fn from_conditions(job: &Job) -> Option<Self> {
        let from_conditions = |end: JobEnd| {
            let kind = end.conditions()[0];
            let condition = Condition::find(&job.status.conditions, kind)?;
            let holds = condition.status == k3_workloads::ConditionStatus::True;
            holds.then(|| JobEnd {
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                known: true,
                ..end
            })
        };
        from_conditions(JobEnd::success("", "")).or_else(|| from_conditions(JobEnd::failure("", "")))
    }
}

// --- JobSnapshot ---

impl<'a> JobSnapshot<'a> {
    /// `failures` is the backoff record of the last sync, if there is one.
    // upstream: pkg/controller/job/job_controller.go syncJob
    pub(super) fn new(
        job: &'a Job,
        pods: &'a [Arc<Pod>],
        failures: Option<BackoffRecord>,
        now: Timestamp,
    ) -> Self {
        let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let mut snapshot = JobSnapshot {
            ready: count(active.iter().filter(|pod| pod.is_ready())),
            terminating: count(pods.iter().filter(|pod| pod.is_terminating())),
            start_time: job.status.start_time.or((!job.is_suspended()).then_some(now)),
            job,
            pods,
            now,
            active,
            succeeded: 0,
            failed: 0,
            succeeded_indexes_before: Indexes::default(),
            done: Indexes::default(),
            failed_indexes: None,
            failures: BackoffRecord::default(),
            to_replace: BTreeMap::new(),
            end: None,
        };
        snapshot.count(failures);
        snapshot.end = JobEnd::from_conditions(job)
            .or_else(|| snapshot.fail_job_message())
            .or_else(|| snapshot.past_backoff_limit_or_deadline());
        if job.is_indexed() {
            snapshot.calculate_indexes();
        }
        snapshot
    }

    /// Counts finished pods.
    // upstream: pkg/controller/job/job_controller.go getNewFinishedPods
    fn count(&mut self, failures: Option<BackoffRecord>) {
        let job = self.job;
        let nothing = UncountedTerminatedPods::default();
        let uncounted = job.status.uncounted_terminated_pods.as_ref().unwrap_or(&nothing);
        let new = |known: &[Box<str>], is: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> {
            let known: HashSet<&str> = known.iter().map(|uid| &**uid).collect();
            let pods = self.pods.iter().map(|pod| &**pod);
            let new = pods.filter(|pod| {
                is_tracked(pod)
                    && !known.contains(&*pod.metadata.uid)
                    && (!job.is_indexed() || job.completion_index(pod).is_some())
                    && is(pod)
            });
            new.collect()
        };
        let has_succeeded = |pod: &Pod| pod.status.phase == PodPhase::Succeeded;
        let has_failed = |pod: &Pod| job.has_failed(pod);
        let succeeded = new(&uncounted.succeeded, &has_succeeded);
        let failed = new(&uncounted.failed, &has_failed);
        let matter = failed.iter().filter(|pod| job.failure_policy_match(pod).counts());
        self.failed = job.status.failed + count(matter) + count(&uncounted.failed);
        self.succeeded = job.status.succeeded + count(&succeeded) + count(&uncounted.succeeded);
        self.failures = if let Some(failures) = failures {
            failures.with(succeeded, failed)
        } else {
            // No record: computed from the existing pods.
            let pods = || self.pods.iter().map(|pod| &**pod);
            BackoffRecord::default().with(
                pods().filter(|pod| has_succeeded(pod)),
                pods().filter(|pod| has_failed(pod)),
            )
        };
    }

    /// Whether podFailurePolicy fails the job (rule FailJob).
    // upstream: pkg/controller/job/job_controller.go getFailJobMessage
    fn fail_job_message(&self) -> Option<JobEnd> {
        self.job.spec.pod_failure_policy.as_ref()?;
        let mut failed = self.pods.iter().filter(|pod| self.job.has_failed(pod));
        let message = failed.find_map(|pod| self.job.failure_policy_match(pod).message)?;
        Some(JobEnd::failure("PodFailurePolicy", &message))
    }

    /// Whether the job failed: past its backoffLimit or its activeDeadlineSeconds.
    // upstream: pkg/controller/job/job_controller.go pastBackoffLimitOnFailure, pastActiveDeadline
    fn past_backoff_limit_or_deadline(&self) -> Option<JobEnd> {
        let limit = self.job.spec.backoff_limit.unwrap_or(6);
        let alive = |pod: &&Arc<Pod>| {
            pod.spec.template.restart_policy == RestartPolicy::OnFailure
                && matches!(pod.status.phase, PodPhase::Pending | PodPhase::Running)
        };
        let statuses = self.pods.iter().filter(alive).flat_map(|pod| {
            let status = &pod.status;
            status
                .init_container_statuses
                .iter()
                .chain(&status.container_statuses)
        });
        let restarts: u64 = statuses.map(|status| u64::from(status.restart_count)).sum();
        let max = u64::from(limit.max(0).unsigned_abs());
        if self.failed > limit || restarts > 0 && restarts >= max {
            let message = "Job has reached the specified backoff limit";
            return Some(JobEnd::failure("BackoffLimitExceeded", message));
        }
        let left = self.time_left()?;
        (left <= 0).then(|| {
            let message = "Job was active longer than specified deadline";
            JobEnd::failure("DeadlineExceeded", message)
        })
    }

    /// Remaining activeDeadlineSeconds in nanoseconds; `None` without a deadline or while suspended.
    pub(super) fn time_left(&self) -> Option<i128> {
        let seconds = self.job.spec.active_deadline_seconds?;
        let start = self.start_time.filter(|_| !self.job.is_suspended())?;
        Some(start.as_nanosecond() + i128::from(seconds) * 1_000_000_000 - self.now.as_nanosecond())
    }

    /// Computes completed and failed indexes of an Indexed job.
    // upstream: pkg/controller/job/indexed_job_utils.go calculateSucceededIndexes, calculateFailedIndexes
    fn calculate_indexes(&mut self) {
        let job = self.job;
        let completions = job.completions();
        let tracked = || {
            let pods = self.pods.iter().filter(|pod| is_tracked(pod));
            pods.filter_map(|pod| Some((job.completion_index(pod)?, pod)))
        };
        let succeeded = tracked().filter(|(_, pod)| pod.status.phase == PodPhase::Succeeded);
        let succeeded: Indexes = succeeded.map(|(index, _)| index).collect();
        let succeeded_indexes_before = Indexes::parse(&job.status.completed_indexes, completions);
        let done = succeeded_indexes_before.union(&succeeded);
        if let Some(limit) = job.spec.backoff_limit_per_index {
            let failed = tracked().filter(|(_, pod)| job.is_index_failed(pod, limit));
            let failed: Indexes = failed.map(|(index, _)| index).collect();
            let text = job.status.failed_indexes.as_deref().unwrap_or_default();
            let failed_indexes = Indexes::parse(text, completions).union(&failed);
            self.end = self
                .end
                .take()
                .or_else(|| failed_indexes_end(job, &done, &failed_indexes));
            self.to_replace = to_replace(self, &done, &failed_indexes);
            self.failed_indexes = Some(failed_indexes);
        }
        self.end = self.end.take().or_else(|| {
            let message = policy::match_success_policy(job.spec.success_policy.as_ref(), completions, &done)?;
            Some(JobEnd::success("SuccessPolicy", &message))
        });
        self.succeeded = done.count();
        self.succeeded_indexes_before = succeeded_indexes_before;
        self.done = done;
    }
}

/// Whether the job failed because of maxFailedIndexes, or because all indexes finished and some failed.
fn failed_indexes_end(job: &Job, done: &Indexes, failed_indexes: &Indexes) -> Option<JobEnd> {
    let failed = failed_indexes.count();
    let completions = job.spec.completions.unwrap_or(0);
    if job.spec.max_failed_indexes.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(JobEnd::failure("MaxFailedIndexesExceeded", message));
    }
    let all = failed > 0 && failed.saturating_add(done.count()) >= completions;
    all.then(|| JobEnd::failure("FailedIndexes", "Job has failed indexes"))
}

/// By index, the failed pod that is to be replaced.
// upstream: pkg/controller/job/indexed_job_utils.go getPodsWithDelayedDeletionPerIndex
fn to_replace(
    snapshot: &JobSnapshot<'_>,
    done: &Indexes,
    failed_indexes: &Indexes,
) -> BTreeMap<u32, Arc<Pod>> {
    let job = snapshot.job;
    let active = indexes(&snapshot.active);
    let mut replaced: BTreeMap<u32, Arc<Pod>> = BTreeMap::new();
    let failed = snapshot
        .pods
        .iter()
        .filter(|pod| is_tracked(pod) && job.has_failed(pod));
    for pod in failed {
        let Some(index) = job.completion_index(pod) else {
            continue;
        };
        if done.has(index) || failed_indexes.has(index) || active.has(index) {
            continue;
        }
        let is_newer = replaced.get(&index).is_none_or(|last| {
            index_failure_count(last) <= index_failure_count(pod) && finish_time(last) <= finish_time(pod)
        });
        if is_newer {
            replaced.insert(index, Arc::clone(pod));
        }
    }
    replaced
}

fn count<I: IntoIterator>(of: I) -> i32 {
    i32::try_from(of.into_iter().count()).unwrap_or(i32::MAX)
}
