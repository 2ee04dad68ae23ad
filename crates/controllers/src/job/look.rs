//! A look at a job and its pods: what they add up to.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;

use super::{
    backoff::{Failures, ended_at},
    indexes::Indexes,
    pods::{failures_before, indexes, is_tracked},
    policy,
};
use crate::objects::{Condition, Job, Pod, PodPhase, UncountedTerminatedPods};

/// What a job and its pods add up to at a moment.
#[derive(Debug)]
pub(super) struct Look<'a> {
    pub job: &'a Job,
    pub pods: &'a [Arc<Pod>],
    pub now: Timestamp,
    /// The pods that work or will.
    pub active: Vec<Arc<Pod>>,
    /// How many of them are ready.
    pub ready: i32,
    /// How many pods are going and have not ended.
    pub terminating: i32,
    /// How many pods, or indexes, have succeeded.
    pub succeeded: i32,
    /// How many pods have failed.
    pub failed: i32,
    /// The indexes that the status says are done.
    pub done_before: Indexes,
    /// The indexes that are done.
    pub done: Indexes,
    /// The indexes that have failed, if each has a limit of its own.
    pub lost: Option<Indexes>,
    /// The failures since the last success.
    pub failures: Failures,
    /// By index, the pod that failed last and that another is to replace. It stays until then, for it carries the counts.
    pub to_replace: BTreeMap<u32, Arc<Pod>>,
    /// When the job began.
    pub start_time: Option<Timestamp>,
    /// How it ends, if it does.
    pub end: Option<End>,
}

/// How a job ends. It has ended when its last pod has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub success: bool,
    pub reason: Box<str>,
    pub message: Box<str>,
    /// Whether the status says so already.
    pub known: bool,
}

// --- End ---

impl End {
    pub(super) fn success(reason: &str, message: &str) -> Self {
        End {
            success: true,
            reason: reason.into(),
            message: message.into(),
            known: false,
        }
    }

    fn failure(reason: &str, message: &str) -> Self {
        End {
            success: false,
            ..End::success(reason, message)
        }
    }

    /// The condition that tells of it before the last pod has ended, and that for afterwards.
    pub(super) fn conditions(&self) -> [&'static str; 2] {
        if self.success {
            ["SuccessCriteriaMet", "Complete"]
        } else {
            ["FailureTarget", "Failed"]
        }
    }

    /// What the status says.
    fn told(job: &Job) -> Option<Self> {
        let told = |end: End| {
            let kind = end.conditions()[0];
            let condition = Condition::find(&job.status.conditions, kind)?;
            let holds = condition.status == crate::objects::ConditionStatus::True;
            holds.then(|| End {
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                known: true,
                ..end
            })
        };
        told(End::success("", "")).or_else(|| told(End::failure("", "")))
    }
}

// --- Look ---

impl<'a> Look<'a> {
    /// Looks. `failures` is what was known of them the last time; nothing if there was none.
    pub(super) fn new(
        job: &'a Job,
        pods: &'a [Arc<Pod>],
        failures: Option<Failures>,
        now: Timestamp,
    ) -> Self {
        let active: Vec<_> = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        let mut look = Look {
            ready: count(active.iter().filter(|pod| pod.is_ready())),
            terminating: count(pods.iter().filter(|pod| pod.is_terminating())),
            start_time: job.status.start_time.or((!job.is_suspended()).then_some(now)),
            job,
            pods,
            now,
            active,
            succeeded: 0,
            failed: 0,
            done_before: Indexes::default(),
            done: Indexes::default(),
            lost: None,
            failures: Failures::default(),
            to_replace: BTreeMap::new(),
            end: None,
        };
        look.count(failures);
        look.end = End::told(job)
            .or_else(|| look.failed_by_policy())
            .or_else(|| look.failed_by_limits());
        if job.is_indexed() {
            look.see_indexes();
        }
        look
    }

    /// Counts what has ended.
    fn count(&mut self, failures: Option<Failures>) {
        let job = self.job;
        let nothing = UncountedTerminatedPods::default();
        let uncounted = job.status.uncounted_terminated_pods.as_ref().unwrap_or(&nothing);
        let new = |known: &[Box<str>], is: &dyn Fn(&Pod) -> bool| -> Vec<&'a Pod> {
            let known: HashSet<&str> = known.iter().map(|uid| &**uid).collect();
            let pods = self.pods.iter().map(|pod| &**pod);
            let new = pods.filter(|pod| {
                is_tracked(pod)
                    && !known.contains(&*pod.metadata.uid)
                    && (!job.is_indexed() || job.index_of(pod).is_some())
                    && is(pod)
            });
            new.collect()
        };
        let has_succeeded = |pod: &Pod| pod.status.phase == PodPhase::Succeeded;
        let has_failed = |pod: &Pod| job.has_failed(pod);
        let succeeded = new(&uncounted.succeeded, &has_succeeded);
        let failed = new(&uncounted.failed, &has_failed);
        let matter = failed.iter().filter(|pod| job.meaning_of(pod).counts());
        self.failed = job.status.failed + count(matter) + count(&uncounted.failed);
        self.succeeded = job.status.succeeded + count(&succeeded) + count(&uncounted.succeeded);
        self.failures = if let Some(failures) = failures {
            failures.with(succeeded, failed)
        } else {
            // Nobody remembers: the pods that are still there tell it.
            let pods = || self.pods.iter().map(|pod| &**pod);
            Failures::default().with(
                pods().filter(|pod| has_succeeded(pod)),
                pods().filter(|pod| has_failed(pod)),
            )
        };
    }

    /// Whether the failure of a pod is that of the job.
    fn failed_by_policy(&self) -> Option<End> {
        self.job.spec.pod_failure_policy.as_ref()?;
        let mut failed = self.pods.iter().filter(|pod| self.job.has_failed(pod));
        let message = failed.find_map(|pod| self.job.meaning_of(pod).message)?;
        Some(End::failure("PodFailurePolicy", &message))
    }

    /// Whether it took too many pods, or too long.
    fn failed_by_limits(&self) -> Option<End> {
        let limit = self.job.spec.backoff_limit.unwrap_or(6);
        let alive = |pod: &&Arc<Pod>| {
            &*pod.spec.restart_policy == "OnFailure"
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
        let most = u64::from(limit.max(0).unsigned_abs());
        if self.failed > limit || restarts > 0 && restarts >= most {
            let message = "Job has reached the specified backoff limit";
            return Some(End::failure("BackoffLimitExceeded", message));
        }
        let left = self.time_left()?;
        (left <= 0).then(|| {
            let message = "Job was active longer than specified deadline";
            End::failure("DeadlineExceeded", message)
        })
    }

    /// How much of the time that the job may take is left, in nanoseconds; `None` if it may take any, or rests.
    pub(super) fn time_left(&self) -> Option<i128> {
        let seconds = self.job.spec.active_deadline_seconds?;
        let start = self.start_time.filter(|_| !self.job.is_suspended())?;
        Some(start.as_nanosecond() + i128::from(seconds) * 1_000_000_000 - self.now.as_nanosecond())
    }

    /// Counts indexes instead of pods.
    fn see_indexes(&mut self) {
        let job = self.job;
        let completions = job.completions();
        let tracked = || {
            let pods = self.pods.iter().filter(|pod| is_tracked(pod));
            pods.filter_map(|pod| Some((job.index_of(pod)?, pod)))
        };
        let succeeded = tracked().filter(|(_, pod)| pod.status.phase == PodPhase::Succeeded);
        let succeeded: Indexes = succeeded.map(|(index, _)| index).collect();
        let done_before = Indexes::parse(&job.status.completed_indexes, completions);
        let done = done_before.union(&succeeded);
        if let Some(limit) = job.spec.backoff_limit_per_index {
            let failed = tracked().filter(|(_, pod)| job.fails_index(pod, limit));
            let failed: Indexes = failed.map(|(index, _)| index).collect();
            let text = job.status.failed_indexes.as_deref().unwrap_or_default();
            let lost = Indexes::parse(text, completions).union(&failed);
            self.end = self.end.take().or_else(|| failed_by_indexes(job, &done, &lost));
            self.to_replace = to_replace(self, &done, &lost);
            self.lost = Some(lost);
        }
        self.end = self.end.take().or_else(|| {
            let message = policy::enough(job.spec.success_policy.as_ref(), completions, &done)?;
            Some(End::success("SuccessPolicy", &message))
        });
        self.succeeded = done.count();
        self.done_before = done_before;
        self.done = done;
    }
}

/// Whether too many indexes have failed, or all have ended and some have failed.
fn failed_by_indexes(job: &Job, done: &Indexes, lost: &Indexes) -> Option<End> {
    let (failed, completions) = (lost.count(), job.spec.completions.unwrap_or(0));
    if job.spec.max_failed_indexes.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(End::failure("MaxFailedIndexesExceeded", message));
    }
    let all = failed > 0 && failed.saturating_add(done.count()) >= completions;
    all.then(|| End::failure("FailedIndexes", "Job has failed indexes"))
}

/// By index, the pod that is to be replaced.
fn to_replace(look: &Look<'_>, done: &Indexes, lost: &Indexes) -> BTreeMap<u32, Arc<Pod>> {
    let job = look.job;
    let active = indexes(&look.active);
    let mut replaced: BTreeMap<u32, Arc<Pod>> = BTreeMap::new();
    let failed = look
        .pods
        .iter()
        .filter(|pod| is_tracked(pod) && job.has_failed(pod));
    for pod in failed {
        let Some(index) = job.index_of(pod) else { continue };
        if done.has(index) || lost.has(index) || active.has(index) {
            continue;
        }
        let is_newer = replaced.get(&index).is_none_or(|last| {
            failures_before(last) <= failures_before(pod) && ended_at(last) <= ended_at(pod)
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
