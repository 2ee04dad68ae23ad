//! Counts finished pods in the status, each exactly once, across crashes.
//!
//! A finished pod keeps its finalizer. First its UID is written to status.uncountedTerminatedPods; then the finalizer is
//! removed; then the UID is replaced by an increment of a counter. After a crash the status lists the pods in transit, and the
//! pods show how far each one is.

use std::{collections::HashSet, sync::Arc};

use k3_workloads::{Condition, ConditionStatus, Pod, PodPhase};
use serde_json::{Value, json};

use super::{
    manage::PodAction,
    pods::{index, is_tracked},
    snapshot::{JobEnd, JobSnapshot},
};
use crate::{
    event_message::EventMessage,
    objects::{JobStatus, UncountedTerminatedPods},
    patch_values::{count, list, truncate_to_second},
};

/// Maximum number of UIDs in uncountedTerminatedPods, so that the status stays small.
const MAX_UNCOUNTED_PODS: usize = 500;

/// What was done about the pods of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodChanges {
    pub created: i32,
    pub deleted: i32,
    /// How many of the deleted ones were ready.
    pub deleted_ready: i32,
}

/// The status of a job while finished pods are being counted.
#[derive(Debug)]
pub(super) struct StatusTracker<'l, 'a> {
    snapshot: &'l JobSnapshot<'a>,
    /// The status so far.
    pub status: JobStatus,
    /// Pods whose finalizer is removed after the status is written.
    pub release: Vec<Arc<Pod>>,
    /// Events to record after the status is written.
    pub events: Vec<EventMessage>,
    end: Option<JobEnd>,
    terminating: i32,
    /// UIDs of pods with the finalizer.
    with_finalizer: HashSet<Box<str>>,
    /// Whether more pods are waiting than fit into the status.
    is_full: bool,
}

// --- StatusTracker ---

impl<'l, 'a> StatusTracker<'l, 'a> {
    /// The status to write before finalizers are removed.
    // upstream: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers
    pub(super) fn new(snapshot: &'l JobSnapshot<'a>, action: &PodAction, done: PodChanges) -> Self {
        let job = snapshot.job;
        let with_finalizer = snapshot.pods.iter().filter(|pod| is_tracked(pod));
        let mut tracker = StatusTracker {
            snapshot,
            status: job.status.clone(),
            release: Vec::new(),
            events: Vec::new(),
            end: snapshot.end.clone(),
            terminating: snapshot.terminating + done.deleted,
            with_finalizer: with_finalizer.map(|pod| pod.metadata.uid.clone()).collect(),
            is_full: false,
        };
        let active = i32::try_from(snapshot.active.len()).unwrap_or(i32::MAX);
        let active_now = active + done.created - done.deleted;
        let status = &mut tracker.status;
        status.start_time = snapshot.start_time.map(truncate_to_second);
        status.active = active_now;
        status.ready = Some(snapshot.ready - done.deleted_ready);
        status.terminating = Some(tracker.terminating);
        status.uncounted_terminated_pods.get_or_insert_default();
        if let PodAction::JobEnd(pods) = action {
            if usize::try_from(done.deleted) != Ok(pods.len()) {
                // There may be pods that are not counted yet.
                tracker.end = None;
            }
        } else if snapshot.succeeded >= job.spec.completions.unwrap_or(1) && active_now == 0 {
            let message = "Reached expected number of succeeded pods";
            tracker.end = Some(JobEnd::success("CompletionsReached", message));
        } else if !job.metadata.is_terminating() {
            tracker.set_suspended_condition();
        }
        tracker.count_pods_without_finalizer();
        tracker.add_uncounted();
        if job.is_indexed() {
            tracker.status.succeeded = snapshot.done.count();
            tracker.status.completed_indexes = snapshot.done.to_string().into();
            tracker.status.failed_indexes = snapshot
                .failed_indexes
                .as_ref()
                .map(|failed_indexes| failed_indexes.to_string().into());
        }
        if let Some(end) = tracker.end.clone().filter(|end| !end.known) {
            tracker.set(
                end.conditions()[0],
                ConditionStatus::True,
                &end.reason,
                &end.message,
            );
        }
        tracker
    }

    /// Records that the finalizers of these pods were removed.
    // upstream: pkg/controller/job/job_controller.go flushUncountedAndRemoveFinalizers
    pub(super) fn released<'p>(&mut self, pods: impl IntoIterator<Item = &'p Pod>) {
        for pod in pods {
            self.with_finalizer.remove(&pod.metadata.uid);
        }
        self.count_pods_without_finalizer();
    }

    /// Adds the final condition if the job has finished.
    // upstream: pkg/controller/job/job_controller.go enactJobFinished
    pub(super) fn finish(&mut self) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let waits = uncounted.is_some_and(|pods| !pods.succeeded.is_empty() || !pods.failed.is_empty());
        let Some(end) = self.end.clone() else { return false };
        if self.is_full || waits || self.terminating > 0 {
            return false;
        }
        self.set(
            end.conditions()[1],
            ConditionStatus::True,
            &end.reason,
            &end.message,
        );
        if !end.success {
            self.events.push(EventMessage::warning(&end.reason, &end.message));
            return true;
        }
        self.status.completion_time = Some(truncate_to_second(self.snapshot.now));
        if self
            .snapshot
            .job
            .spec
            .completions
            .is_some_and(|wanted| self.status.succeeded > wanted)
        {
            let message = "Too many succeeded pods running after completion count reached";
            self.events
                .push(EventMessage::warning("TooManySucceededPods", message));
        }
        self.events
            .push(EventMessage::normal("Completed", "Job completed"));
        true
    }

    // upstream: pkg/controller/job/job_controller.go syncJob; conditions Suspended, JobSuspended and JobResumed
    fn set_suspended_condition(&mut self) {
        let reported = Condition::find(&self.status.conditions, "Suspended");
        let status = reported.map(|condition| condition.status);
        if self.snapshot.job.is_suspended() {
            if status != Some(ConditionStatus::True) {
                self.set(
                    "Suspended",
                    ConditionStatus::True,
                    "JobSuspended",
                    "Job suspended",
                );
                self.events
                    .push(EventMessage::normal("Suspended", "Job suspended"));
                self.status.start_time = None;
            }
        } else if status.is_some_and(|status| status != ConditionStatus::False) {
            self.set("Suspended", ConditionStatus::False, "JobResumed", "Job resumed");
            self.events.push(EventMessage::normal("Resumed", "Job resumed"));
            // activeDeadlineSeconds restarts.
            self.status.start_time = Some(truncate_to_second(self.snapshot.now));
        }
    }

    /// Replaces UIDs of pods without a finalizer by counter increments.
    // upstream: pkg/controller/job/job_controller.go cleanUncountedPodsWithoutFinalizers
    fn count_pods_without_finalizer(&mut self) {
        let Some(UncountedTerminatedPods { succeeded, failed }) = &mut self.status.uncounted_terminated_pods
        else {
            return;
        };
        for (pods, count) in [
            (succeeded, &mut self.status.succeeded),
            (failed, &mut self.status.failed),
        ] {
            let before = pods.len();
            pods.retain(|uid| self.with_finalizer.contains(uid));
            *count += i32::try_from(before - pods.len()).unwrap_or(i32::MAX);
        }
    }

    /// Adds UIDs of newly finished pods.
    // upstream: pkg/controller/job/job_controller.go trackJobStatusAndRemoveFinalizers
    fn add_uncounted(&mut self) {
        let job = self.snapshot.job;
        let before = job.status.uncounted_terminated_pods.as_ref();
        let (succeeded, failed) = before.map_or((&[][..], &[][..]), |pods| (&*pods.succeeded, &*pods.failed));
        let known = |uids: &'a [Box<str>]| uids.iter().map(|uid| &**uid).collect::<HashSet<&str>>();
        let succeeded = known(succeeded);
        let failed = known(failed);
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let fails = self.end.as_ref().is_some_and(|end| !end.success);
        let mut new_indexes = 0;
        let mut pods: Vec<_> = self.snapshot.pods.iter().filter(|pod| is_tracked(pod)).collect();
        if job.is_indexed() {
            pods.sort_by_key(|pod| index(pod));
        }
        for pod in pods {
            let uid = &pod.metadata.uid;
            let has_failed = job.has_failed(pod);
            if !self.can_remove_finalizer(pod) {
                continue;
            }
            self.release.push(Arc::clone(pod));
            let index = job.completion_index(pod);
            if pod.status.phase == PodPhase::Succeeded && !failed.contains(&**uid) {
                if !job.is_indexed() {
                    if !succeeded.contains(&**uid) {
                        uncounted.succeeded.push(uid.clone());
                    }
                } else if index.is_some_and(|index| !self.snapshot.succeeded_indexes_before.has(index)) {
                    // The set of completed indexes suffices to count each of them once.
                    new_indexes += 1;
                }
            } else if (has_failed || fails)
                && !failed.contains(&**uid)
                && (!job.is_indexed() || index.is_some())
                && job.failure_policy_match(pod).counts()
            {
                uncounted.failed.push(uid.clone());
            }
            if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MAX_UNCOUNTED_PODS {
                self.is_full = true;
                break;
            }
        }
        self.status.uncounted_terminated_pods = Some(uncounted);
    }

    /// Whether the finalizer of a pod may be removed.
    // upstream: pkg/controller/job/job_controller.go canRemoveFinalizer
    fn can_remove_finalizer(&self, pod: &Pod) -> bool {
        let job = self.snapshot.job;
        let all = job.metadata.is_terminating() || self.end.is_some();
        let waits = || {
            let replaced = index(pod).and_then(|index| self.snapshot.to_replace.get(&index));
            replaced.is_some_and(|replaced| replaced.metadata.uid == pod.metadata.uid)
        };
        all || pod.status.phase == PodPhase::Succeeded || job.has_failed(pod) && !waits()
    }

    fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let now = truncate_to_second(self.snapshot.now);
        let condition = Condition {
            kind: kind.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Some(now),
            other: [("lastProbeTime".to_owned(), json!(now))].into_iter().collect(),
        };
        let conditions = &mut self.status.conditions;
        match conditions.iter_mut().find(|condition| &*condition.kind == kind) {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
}

/// The patch that replaces the status at a resourceVersion.
pub(super) fn status_patch(status: &JobStatus, version: &str) -> Value {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let indexes = &*status.completed_indexes;
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "conditions": status.conditions,
            "startTime": status.start_time,
            "completionTime": status.completion_time,
            "active": count(status.active),
            "ready": status.ready,
            "terminating": status.terminating,
            "succeeded": count(status.succeeded),
            "failed": count(status.failed),
            "completedIndexes": (!indexes.is_empty()).then_some(indexes),
            "failedIndexes": status.failed_indexes,
            "uncountedTerminatedPods": uncounted.map(|pods| {
                json!({"succeeded": list(&pods.succeeded), "failed": list(&pods.failed)})
            }),
        }
    })
}
