//! What is next in the life of a pod.
//!
//! All of it is in the pod's status and its rule: every reader computes the same step, also after a crash.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{
    object::{Pod, RestartPolicy, Terminated},
    status::{PodStage, gates_closed},
};
use crate::{
    meta::Deletion,
    rules::{Ready, Rules},
};

/// What is to be done about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LifecycleStep {
    /// Nothing, until something happens to it.
    Rest,
    /// Nothing until then.
    Wait(Timestamp),
    /// Its status is to say this.
    Write(PodStage),
    /// It is to be deleted for good.
    Remove,
}

/// When it is, as far as a pod is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodTime {
    pub(super) now: Timestamp,
    /// When its status was last written here, to more than a second.
    pub(super) wrote: Option<Timestamp>,
}

/// The code of a process that was asked to end.
const STOPPED: i32 = 143;
/// The code of a process that was killed.
const KILLED: i32 = 137;
/// How long a container that ended a second time waits; twice as long each time after that.
const BACKOFF: Duration = Duration::from_secs(10);
const LONGEST_BACKOFF: Duration = Duration::from_mins(5);
/// A container that ran for longer than this starts again at once.
const STEADY: Duration = Duration::from_mins(10);

/// What is next in the life of a pod.
pub(super) fn plan(pod: &Pod, rules: &Rules, moment: PodTime) -> LifecycleStep {
    let now = moment.now;
    if let Some(deletion) = pod.metadata.deletion.as_deref() {
        return terminate(pod, *deletion, rules, now);
    }
    if pod.has_ended() {
        return LifecycleStep::Rest;
    }
    let rule = rules.pod(pod.rule);
    let uid = &*pod.metadata.uid;
    let status = &pod.status;
    let container = &pod.status.container;
    let Some(began) = status.start_time else {
        return if rules.length(rule.run, uid, "run", 0).is_zero() {
            LifecycleStep::Write(run(pod, rules, now, 0, None))
        } else {
            LifecycleStep::Write(PodStage::Creating)
        };
    };
    let deadline = pod.spec.active_deadline_seconds;
    let deadline = deadline.map(|seconds| began + Duration::from_secs(seconds.into()));
    if deadline.is_some_and(|deadline| deadline <= now) {
        return LifecycleStep::Write(PodStage::Overdue {
            ended: end(pod, now, KILLED),
        });
    }
    let next = if let Some(since) = container.running {
        let since = moment.exact(since);
        match go_on(pod, rules, since, now) {
            Ok(next) => next,
            Err(scene) => return LifecycleStep::Write(scene),
        }
    } else {
        let (due, restarts, last) = match container.last.as_deref().copied() {
            Some(last) => {
                let wait = backoff(container.restart_count, last);
                let due = moment.exact(last.finished_at) + wait;
                (due, container.restart_count + 1, Some(last))
            }
            None => (
                moment.exact(began) + rules.length(rule.run, uid, "run", 0),
                0,
                None,
            ),
        };
        if due <= now {
            return LifecycleStep::Write(run(pod, rules, now, restarts, last));
        }
        Some(due)
    };
    match next.into_iter().chain(deadline).min() {
        Some(next) => LifecycleStep::Wait(next),
        None => LifecycleStep::Rest,
    }
}

/// Terminates a pod. One with finalizers reports first how it ended: the owner of the finalizer may wait for that.
fn terminate(pod: &Pod, deletion: Deletion, rules: &Rules, now: Timestamp) -> LifecycleStep {
    let metadata = &pod.metadata;
    let has_ended = pod.has_ended();
    if !has_ended {
        let end = deletion.at;
        let grace = Duration::from_secs(deletion.grace.into());
        let stop = rules.length(rules.pod(pod.rule).stop, &metadata.uid, "stop", 0);
        let due = end - grace + stop.min(grace);
        if now < due {
            return LifecycleStep::Wait(due);
        }
    }
    match (metadata.is_held, has_ended) {
        (true, false) => LifecycleStep::Write(PodStage::Over {
            ended: end_of(pod, now, STOPPED),
        }),
        // Its final deletion was requested already.
        (true, true) if deletion.grace == 0 => LifecycleStep::Rest,
        _ => LifecycleStep::Remove,
    }
}

/// What becomes of containers that run: the time of the next change, or the change that is due.
fn go_on(pod: &Pod, rules: &Rules, since: Timestamp, now: Timestamp) -> Result<Option<Timestamp>, PodStage> {
    let rule = rules.pod(pod.rule);
    let uid = &*pod.metadata.uid;
    let restarts = pod.status.container.restart_count;
    let exit = rule
        .exit
        .filter(|exit| exit.times.is_none_or(|times| restarts < times));
    let due = exit.map(|exit| since + rules.length(exit.delay(), uid, "exit", restarts));
    if let (Some(exit), Some(due)) = (exit, due)
        && due <= now
    {
        let ended = end(pod, now, exit.code.into());
        let is_restarted = match pod.spec.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit.code != 0,
            RestartPolicy::Never => false,
        };
        if !is_restarted {
            return Err(PodStage::Over { ended });
        }
        let wait = backoff(restarts, ended);
        if wait.is_zero() {
            return Err(run(pod, rules, now, restarts + 1, Some(ended)));
        }
        return Err(PodStage::Crashed {
            restarts,
            last: ended,
            wait,
        });
    }
    let ready_at = match rule.ready {
        Ready::Never => None,
        Ready::After(delay) => Some(since + rules.length(delay, uid, "ready", restarts)),
    };
    let is_ready = ready_at.is_some_and(|ready_at| ready_at <= now);
    let gates = gates_closed(pod);
    let is_said = pod.condition("ContainersReady") == is_ready.into()
        && pod.condition("Ready") == (is_ready && gates.is_none()).into()
        && (!is_ready || gates.unwrap_or_default() == *pod.status.conditions.gates);
    if !is_said {
        let container = &pod.status.container;
        return Err(PodStage::Running {
            since: container.running.unwrap_or(now),
            restarts,
            ready: is_ready,
            last: container.last.as_deref().copied(),
        });
    }
    let ready_at = ready_at.filter(|_| !is_ready);
    Ok(due.into_iter().chain(ready_at).min())
}

/// Containers begin to run.
fn run(pod: &Pod, rules: &Rules, now: Timestamp, restarts: u32, last: Option<Terminated>) -> PodStage {
    let ready = match rules.pod(pod.rule).ready {
        Ready::Never => false,
        Ready::After(delay) => rules
            .length(delay, &pod.metadata.uid, "ready", restarts)
            .is_zero(),
    };
    PodStage::Running {
        since: now,
        restarts,
        ready,
        last,
    }
}

/// How containers end that run.
fn end(pod: &Pod, now: Timestamp, code: i32) -> Terminated {
    Terminated {
        exit_code: code,
        started_at: pod.status.container.running.unwrap_or(now),
        finished_at: now,
    }
}

/// How containers of a terminating pod end, whatever they do.
fn end_of(pod: &Pod, now: Timestamp, code: i32) -> Terminated {
    let container = &pod.status.container;
    match (container.running, container.last.as_deref()) {
        (None, Some(last)) => *last,
        _ => end(pod, now, code),
    }
}

/// How long containers that have just ended wait before they are started again: the first time not at all.
fn backoff(restarts: u32, ended: Terminated) -> Duration {
    let ran = ended.finished_at.duration_since(ended.started_at);
    if restarts == 0 || ran.unsigned_abs() > STEADY {
        return Duration::ZERO;
    }
    let doubled = 2_u32.saturating_pow(restarts - 1);
    BACKOFF.saturating_mul(doubled).min(LONGEST_BACKOFF)
}

// --- PodTime ---

impl PodTime {
    /// A time in a status, which has whole seconds, to more than that if it was written here.
    fn exact(self, time: Timestamp) -> Timestamp {
        let wrote = self.wrote.filter(|wrote| wrote.as_second() == time.as_second());
        wrote.unwrap_or(time)
    }
}
