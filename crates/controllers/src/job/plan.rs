//! What is to be done about the pods of a job.

use std::{sync::Arc, time::Duration};

use super::{
    backoff::{Failures, ended_at},
    look::Look,
    pods::{FAILURES, IGNORED_FAILURES, count, failures_before, indexes},
};
use crate::objects::Pod;

/// So many pods are made or deleted at a time, so that large jobs do not keep others waiting.
const AT_ONCE: usize = 500;

/// The least wait after a failure.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// What is to be done about the pods of a job.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Nothing now: a pod failed a short time ago.
    Wait(Duration),
    /// These are to go, for the job ends. They are held back until they are in the counts.
    End(Vec<Arc<Pod>>),
    /// These are not wanted, and are in no count.
    Delete(Vec<Arc<Pod>>),
    /// These are wanted.
    Create(Vec<Wanted>),
}

/// A pod that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its place in the work.
    pub index: Option<u32>,
    /// How many pods of its index failed before it: those that counted, and those that did not.
    pub failures: Option<(u32, u32)>,
}

// --- Action ---

impl Action {
    /// What is to be done.
    pub(super) fn new(look: &Look<'_>) -> Self {
        let job = look.job;
        if look.end.is_some() {
            return Action::End(look.active.clone());
        }
        if job.metadata.is_going() {
            return Action::Nothing;
        }
        let active = look.active.len();
        if job.is_suspended() {
            return Action::Delete(look.active.clone());
        }
        let wanted = wanted(look);
        let mut surplus = job.surplus(&look.active, active.saturating_sub(wanted));
        if !surplus.is_empty() {
            surplus.truncate(AT_ONCE);
            return Action::Delete(surplus);
        }
        let going = if job.waits_for_failure() {
            usize::try_from(look.terminating).unwrap_or(0)
        } else {
            0
        };
        match wanted.saturating_sub(going + active) {
            0 => Action::Nothing,
            missing => create(look, missing.min(AT_ONCE)),
        }
    }
}

/// How many pods are to work.
fn wanted(look: &Look<'_>) -> usize {
    let spec = &look.job.spec;
    let parallelism = spec.parallelism.unwrap_or(1);
    let wanted = match spec.completions {
        // One has said that the work is done: those that work may end theirs.
        None if look.succeeded > 0 => return look.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions - look.succeeded),
    };
    usize::try_from(wanted).unwrap_or(0)
}

fn create(look: &Look<'_>, missing: usize) -> Action {
    let job = look.job;
    let each_has_limit = job.spec.backoff_limit_per_index.is_some();
    if !each_has_limit {
        let wait = look.failures.wait(look.now);
        if !wait.is_zero() {
            return Action::Wait(wait.max(LEAST_WAIT));
        }
    }
    if !job.is_indexed() {
        return Action::Create(vec![Wanted::default(); missing]);
    }
    let mut taken = look.done.union(&indexes(&look.active));
    if job.waits_for_failure() {
        let going = look.pods.iter().filter(|pod| pod.is_terminating());
        taken = taken.union(&indexes(going));
    }
    if let Some(lost) = &look.lost {
        taken = taken.union(lost);
    }
    let mut pods = Vec::new();
    let mut waits = Vec::new();
    for index in taken.missing(job.completions(), missing) {
        let replaced = look.to_replace.get(&index);
        let wait = replaced.map_or(Duration::ZERO, |pod| {
            let failures = Failures {
                count: failures_before(pod) + 1,
                last: Some(ended_at(pod)),
            };
            failures.wait(look.now)
        });
        if !wait.is_zero() {
            waits.push(wait);
            continue;
        }
        pods.push(Wanted {
            index: Some(index),
            failures: each_has_limit.then(|| replaced.map_or((0, 0), |pod| failures_after(look, pod))),
        });
    }
    match (pods.is_empty(), waits.into_iter().min()) {
        (true, Some(wait)) => Action::Wait(wait.max(LEAST_WAIT)),
        (true, None) => Action::Nothing,
        (false, _) => Action::Create(pods),
    }
}

/// How many pods of an index have failed with this one.
fn failures_after(look: &Look<'_>, pod: &Pod) -> (u32, u32) {
    let (counted, ignored) = (count(pod, FAILURES), count(pod, IGNORED_FAILURES));
    if look.job.meaning_of(pod).counts() {
        (counted + 1, ignored)
    } else {
        (counted, ignored + 1)
    }
}
