//! The next step in the lifecycle of a pod.
//!
//! It depends only on the pod's status and its rule, so every process computes the same step, also after a crash.

use std::time::Duration;

use k3_workloads::RestartPolicy;
use k8s_openapi::jiff::Timestamp;

use super::{
    object::{Deletion, FinishedRun, SimulatedPod},
    status::{PodStage, unready_gates_message},
};
use crate::rules::{ReadyRule, Rules};

/// The next step of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LifecycleStep {
    /// Nothing until the pod changes.
    Idle,
    /// Nothing until this time.
    Wait(Timestamp),
    /// Write the status of this stage.
    Write(PodStage),
    /// Delete the object with grace period 0.
    Delete,
}

/// The current time, and the time of the last status write.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodTime {
    pub(super) now: Timestamp,
    /// When this process last wrote the status, with subsecond precision.
    pub(super) status_written_at: Option<Timestamp>,
}

/// Exit code of a process that SIGTERM ended.
const SIGTERM_EXIT_CODE: i32 = 143;
/// Exit code of a process that SIGKILL ended.
const SIGKILL_EXIT_CODE: i32 = 137;
/// Back-off of the second restart; it doubles with each further restart.
const BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// A container that ran for longer than this is restarted without back-off.
const BACKOFF_RESET: Duration = Duration::from_mins(10);

/// Decides the next step of a pod.
pub(super) fn next_step(pod: &SimulatedPod, rules: &Rules, time: PodTime) -> LifecycleStep {
    let now = time.now;
    if let Some(deletion) = pod.deletion() {
        return terminate(pod, deletion, rules, now);
    }
    if pod.has_ended() {
        return LifecycleStep::Idle;
    }
    let rule = rules.pod(pod.rule);
    let uid = &*pod.metadata.uid;
    let status = &pod.status;
    let container = &pod.run;
    let Some(start_time) = status.start_time else {
        return if rules.length(rule.run, uid, "run", 0).is_zero() {
            LifecycleStep::Write(running_stage(pod, rules, now, 0, None))
        } else {
            LifecycleStep::Write(PodStage::Creating)
        };
    };
    let deadline = pod.spec.template.active_deadline_seconds;
    let deadline = deadline.and_then(|seconds| u64::try_from(seconds).ok());
    let deadline = deadline.and_then(|seconds| start_time.checked_add(Duration::from_secs(seconds)).ok());
    if deadline.is_some_and(|deadline| deadline <= now) {
        return LifecycleStep::Write(PodStage::DeadlineExceeded {
            ended: terminated_state(pod, now, SIGKILL_EXIT_CODE),
        });
    }
    let next = if let Some(since) = container.running {
        let since = time.exact(since);
        match next_running_step(pod, rules, since, now) {
            Ok(next) => next,
            Err(stage) => return LifecycleStep::Write(stage),
        }
    } else {
        let (due, restarts, last) = match container.last {
            Some(last) => {
                let wait = backoff(container.restart_count, last);
                let due = time.exact(last.finished_at) + wait;
                (due, container.restart_count + 1, Some(last))
            }
            None => (
                time.exact(start_time) + rules.length(rule.run, uid, "run", 0),
                0,
                None,
            ),
        };
        if due <= now {
            return LifecycleStep::Write(running_stage(pod, rules, now, restarts, last));
        }
        Some(due)
    };
    match next.into_iter().chain(deadline).min() {
        Some(next) => LifecycleStep::Wait(next),
        None => LifecycleStep::Idle,
    }
}

/// Terminates a pod. A pod with finalizers reports its final status first, because the owner of a finalizer may wait for it.
fn terminate(pod: &SimulatedPod, deletion: Deletion, rules: &Rules, now: Timestamp) -> LifecycleStep {
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
    match (!metadata.finalizers.is_empty(), has_ended) {
        (true, false) => LifecycleStep::Write(PodStage::Finished {
            ended: final_terminated_state(pod, now, SIGTERM_EXIT_CODE),
        }),
        // The deletion with grace period 0 was requested already.
        (true, true) if deletion.grace == 0 => LifecycleStep::Idle,
        _ => LifecycleStep::Delete,
    }
}

/// The time of the next change of running containers, or as an error the stage that is due now.
fn next_running_step(
    pod: &SimulatedPod,
    rules: &Rules,
    since: Timestamp,
    now: Timestamp,
) -> Result<Option<Timestamp>, PodStage> {
    let rule = rules.pod(pod.rule);
    let uid = &*pod.metadata.uid;
    let restarts = pod.run.restart_count;
    let exit = rule
        .exit
        .filter(|exit| exit.times.is_none_or(|times| restarts < times));
    let due = exit.map(|exit| since + rules.length(exit.delay(), uid, "exit", restarts));
    if let (Some(exit), Some(due)) = (exit, due)
        && due <= now
    {
        let ended = terminated_state(pod, now, exit.code.into());
        let is_restarted = match pod.spec.template.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => exit.code != 0,
            RestartPolicy::Never => false,
        };
        if !is_restarted {
            return Err(PodStage::Finished { ended });
        }
        let wait = backoff(restarts, ended);
        if wait.is_zero() {
            return Err(running_stage(pod, rules, now, restarts + 1, Some(ended)));
        }
        return Err(PodStage::Crashed {
            restarts,
            last: ended,
            wait,
        });
    }
    let ready_at = match rule.ready {
        ReadyRule::Never => None,
        ReadyRule::After(delay) => Some(since + rules.length(delay, uid, "ready", restarts)),
    };
    let is_ready = ready_at.is_some_and(|ready_at| ready_at <= now);
    let gates = unready_gates_message(pod);
    let is_said = pod.condition("ContainersReady") == Some(is_ready.into())
        && pod.condition("Ready") == Some((is_ready && gates.is_none()).into())
        && (!is_ready || gates.unwrap_or_default() == pod.reported_gates_message());
    if !is_said {
        let container = &pod.run;
        return Err(PodStage::Running {
            since: container.running.unwrap_or(now),
            restarts,
            ready: is_ready,
            last: container.last,
        });
    }
    let ready_at = ready_at.filter(|_| !is_ready);
    Ok(due.into_iter().chain(ready_at).min())
}

/// The stage of newly started containers.
fn running_stage(
    pod: &SimulatedPod,
    rules: &Rules,
    now: Timestamp,
    restarts: u32,
    last: Option<FinishedRun>,
) -> PodStage {
    let ready = match rules.pod(pod.rule).ready {
        ReadyRule::Never => false,
        ReadyRule::After(delay) => rules
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

/// The terminated state of running containers.
fn terminated_state(pod: &SimulatedPod, now: Timestamp, code: i32) -> FinishedRun {
    FinishedRun {
        exit_code: code,
        started_at: pod.run.running.unwrap_or(now),
        finished_at: now,
    }
}

/// The terminated state of the containers of a terminating pod, running or not.
fn final_terminated_state(pod: &SimulatedPod, now: Timestamp, code: i32) -> FinishedRun {
    let container = &pod.run;
    match (container.running, container.last) {
        (None, Some(last)) => last,
        _ => terminated_state(pod, now, code),
    }
}

/// The back-off before a restart; zero for the first restart.
fn backoff(restarts: u32, ended: FinishedRun) -> Duration {
    let ran = ended.finished_at.duration_since(ended.started_at);
    if restarts == 0 || ran.unsigned_abs() > BACKOFF_RESET {
        return Duration::ZERO;
    }
    let doubled = 2_u32.saturating_pow(restarts - 1);
    BACKOFF.saturating_mul(doubled).min(MAX_BACKOFF)
}

// --- PodTime ---

impl PodTime {
    /// A time of the status, which has whole seconds, with subsecond precision if this process wrote it.
    fn exact(self, time: Timestamp) -> Timestamp {
        let status_written_at = self
            .status_written_at
            .filter(|status_written_at| status_written_at.as_second() == time.as_second());
        status_written_at.unwrap_or(time)
    }
}
