//! How the status of a job comes to say what its pods did, each of them once, whatever breaks in between.
//!
//! A pod that has ended is held back by a finalizer. First its uid is written into the status; then the finalizer is taken
//! away; then the uid becomes one more in a count. Whoever comes after a crash sees in the status which pods are under way,
//! and in the pods how far each is.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    look::{End, Look},
    plan::Action,
    pods::{index, is_tracked},
};
use crate::{
    event_message::EventMessage,
    objects::{Condition, ConditionStatus, JobStatus, Pod, PodPhase, UncountedTerminatedPods},
    patch_values::{count, list, truncate_to_second},
};

/// So many pods are under way at most, so that the status stays small.
const UNDER_WAY: usize = 500;

/// What was done about the pods of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// How many were made.
    pub created: i32,
    /// How many were deleted.
    pub deleted: i32,
    /// How many of these were ready.
    pub deleted_ready: i32,
}

/// The status of a job on its way to what its pods say.
#[derive(Debug)]
pub(super) struct Track<'l, 'a> {
    look: &'l Look<'a>,
    /// The status as far as it is.
    pub status: JobStatus,
    /// The pods whose finalizer goes when the status is written.
    pub release: Vec<Arc<Pod>>,
    /// What people are told when the status is written.
    pub news: Vec<EventMessage>,
    end: Option<End>,
    terminating: i32,
    /// The uids of the pods that have the finalizer.
    held: HashSet<Box<str>>,
    /// Whether there is more to do than fits.
    is_full: bool,
}

// --- Track ---

impl<'l, 'a> Track<'l, 'a> {
    /// The status that is to be written before finalizers are taken away.
    pub(super) fn new(look: &'l Look<'a>, action: &Action, done: Done) -> Self {
        let job = look.job;
        let held = look.pods.iter().filter(|pod| is_tracked(pod));
        let mut track = Track {
            look,
            status: job.status.clone(),
            release: Vec::new(),
            news: Vec::new(),
            end: look.end.clone(),
            terminating: look.terminating + done.deleted,
            held: held.map(|pod| pod.metadata.uid.clone()).collect(),
            is_full: false,
        };
        let active = i32::try_from(look.active.len()).unwrap_or(i32::MAX);
        let active_now = active + done.created - done.deleted;
        let status = &mut track.status;
        status.start_time = look.start_time.map(truncate_to_second);
        status.active = active_now;
        status.ready = Some(look.ready - done.deleted_ready);
        status.terminating = Some(track.terminating);
        status.uncounted_terminated_pods.get_or_insert_default();
        if let Action::End(pods) = action {
            if usize::try_from(done.deleted) != Ok(pods.len()) {
                // There may be pods that nobody counts yet.
                track.end = None;
            }
        } else if look.succeeded >= job.spec.completions.unwrap_or(1) && active_now == 0 {
            let message = "Reached expected number of succeeded pods";
            track.end = Some(End::success("CompletionsReached", message));
        } else if !job.metadata.is_going() {
            track.suspend_or_resume();
        }
        track.count_released();
        track.list_ended();
        if job.is_indexed() {
            track.status.succeeded = look.done.count();
            track.status.completed_indexes = look.done.to_string().into();
            track.status.failed_indexes = look.lost.as_ref().map(|lost| lost.to_string().into());
        }
        if let Some(end) = track.end.clone().filter(|end| !end.known) {
            track.set(
                end.conditions()[0],
                ConditionStatus::True,
                &end.reason,
                &end.message,
            );
        }
        track
    }

    /// The finalizers of these pods are gone.
    pub(super) fn released<'p>(&mut self, pods: impl IntoIterator<Item = &'p Pod>) {
        for pod in pods {
            self.held.remove(&pod.metadata.uid);
        }
        self.count_released();
    }

    /// Says that the job has finished, if it has.
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
            self.news.push(EventMessage::warning(&end.reason, &end.message));
            return true;
        }
        self.status.completion_time = Some(truncate_to_second(self.look.now));
        if self
            .look
            .job
            .spec
            .completions
            .is_some_and(|wanted| self.status.succeeded > wanted)
        {
            let message = "Too many succeeded pods running after completion count reached";
            self.news
                .push(EventMessage::warning("TooManySucceededPods", message));
        }
        self.news.push(EventMessage::normal("Completed", "Job completed"));
        true
    }

    fn suspend_or_resume(&mut self) {
        let told = Condition::find(&self.status.conditions, "Suspended");
        let status = told.map(|condition| condition.status);
        if self.look.job.is_suspended() {
            if status != Some(ConditionStatus::True) {
                self.set(
                    "Suspended",
                    ConditionStatus::True,
                    "JobSuspended",
                    "Job suspended",
                );
                self.news.push(EventMessage::normal("Suspended", "Job suspended"));
                self.status.start_time = None;
            }
        } else if status.is_some_and(|status| status != ConditionStatus::False) {
            self.set("Suspended", ConditionStatus::False, "JobResumed", "Job resumed");
            self.news.push(EventMessage::normal("Resumed", "Job resumed"));
            // What it may take counts anew.
            self.status.start_time = Some(truncate_to_second(self.look.now));
        }
    }

    /// Pods under way that are not held back any more become one more in a count.
    fn count_released(&mut self) {
        let Some(UncountedTerminatedPods { succeeded, failed }) = &mut self.status.uncounted_terminated_pods
        else {
            return;
        };
        for (pods, count) in [
            (succeeded, &mut self.status.succeeded),
            (failed, &mut self.status.failed),
        ] {
            let before = pods.len();
            pods.retain(|uid| self.held.contains(uid));
            *count += i32::try_from(before - pods.len()).unwrap_or(i32::MAX);
        }
    }

    /// Pods that have ended are under way from now on.
    fn list_ended(&mut self) {
        let job = self.look.job;
        let before = job.status.uncounted_terminated_pods.as_ref();
        let (succeeded, failed) = before.map_or((&[][..], &[][..]), |pods| (&*pods.succeeded, &*pods.failed));
        let known = |uids: &'a [Box<str>]| uids.iter().map(|uid| &**uid).collect::<HashSet<&str>>();
        let (succeeded, failed) = (known(succeeded), known(failed));
        let mut uncounted = self.status.uncounted_terminated_pods.take().unwrap_or_default();
        let fails = self.end.as_ref().is_some_and(|end| !end.success);
        let mut new_indexes = 0;
        let mut pods: Vec<_> = self.look.pods.iter().filter(|pod| is_tracked(pod)).collect();
        if job.is_indexed() {
            pods.sort_by_key(|pod| index(pod));
        }
        for pod in pods {
            let uid = &pod.metadata.uid;
            let has_failed = job.has_failed(pod);
            if !self.may_release(pod, has_failed) {
                continue;
            }
            self.release.push(Arc::clone(pod));
            let index = job.index_of(pod);
            if pod.status.phase == PodPhase::Succeeded && !failed.contains(&**uid) {
                if !job.is_indexed() {
                    if !succeeded.contains(&**uid) {
                        uncounted.succeeded.push(uid.clone());
                    }
                } else if index.is_some_and(|index| !self.look.done_before.has(index)) {
                    // The set of indexes is enough to count each of them once.
                    new_indexes += 1;
                }
            } else if (has_failed || fails)
                && !failed.contains(&**uid)
                && (!job.is_indexed() || index.is_some())
                && job.meaning_of(pod).counts()
            {
                uncounted.failed.push(uid.clone());
            }
            if new_indexes + uncounted.succeeded.len() + uncounted.failed.len() >= UNDER_WAY {
                self.is_full = true;
                break;
            }
        }
        self.status.uncounted_terminated_pods = Some(uncounted);
    }

    /// Whether the finalizer of a pod may go.
    fn may_release(&self, pod: &Pod, has_failed: bool) -> bool {
        let all = self.look.job.metadata.is_going() || self.end.is_some();
        let waits = || {
            let replaced = index(pod).and_then(|index| self.look.to_replace.get(&index));
            replaced.is_some_and(|replaced| replaced.metadata.uid == pod.metadata.uid)
        };
        all || pod.status.phase == PodPhase::Succeeded || has_failed && !waits()
    }

    fn set(&mut self, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
        let now = truncate_to_second(self.look.now);
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

/// The patch that makes a status so. With the version, only if nobody was faster.
pub(super) fn patch(status: &JobStatus, version: &str) -> Value {
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
