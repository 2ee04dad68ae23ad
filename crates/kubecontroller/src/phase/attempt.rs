//! One try of a phase: runs its handler and derives the next phase from the result.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::{Instrument, info_span};

use super::{
    builder::Phase,
    context::HandlerContext,
    error::Severity,
    handler::PhaseHandler,
    pass::{HandlerRun, NextPass, PassResult},
    phase_event::{PhaseEvent, reason},
    run::{HandlerOutcome, apply_changes, run},
    state::{Completion, HandlerState},
    state_machine::{StateMachine, errors},
    status::{Approval, Phased},
    step::Change,
    tree::clear_failed,
};

/// The result of one try of a phase.
pub(super) struct Attempt<R> {
    pub(super) state: HandlerState,
    changes: Vec<Change<R>>,
    next: Option<String>,
    pub(super) after: Option<Duration>,
    /// The event reason of a failure that did not originate in the handler, e.g. a timeout.
    result: Option<&'static str>,
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// Runs the handler of the object's phase and derives the next phase.
    pub(super) async fn run_phase(&self, context: &HandlerContext<R>, object: R) -> PassResult<R> {
        let name = object.phase().to_owned();
        let phase = self.get(&name);
        if phase.is_some_and(|phase| phase.approval && self.approval(&object) == Approval::Pending) {
            return PassResult::idle(object, NextPass::Stop);
        }
        let last = last_state(&object, &name);
        let span = info_span!(
            "phase",
            machine = self.name,
            object = object.name_any(),
            phase = name
        );
        let attempt = self.attempt(context, &object, phase, &last);
        let mut attempt = attempt.instrument(span).await;
        let now = context.clock().now();
        let mut object = object;
        apply(&mut object, &mut attempt, now);
        let handler = phase.and_then(|phase| phase.handler.as_ref());
        let to = self.target(&name, &mut attempt, now);
        if attempt.state.completion().is_failure() {
            attempt.state.failures = last.failures.saturating_add(1);
            let exhausted = phase
                .and_then(|phase| phase.tries)
                .filter(|tries| attempt.state.failures >= *tries);
            if let Some(tries) = exhausted.filter(|_| attempt.state.completion() == Completion::Retrying) {
                let why = error_summary(handler, &attempt.state);
                attempt
                    .state
                    .end_badly(now, format!("gave up after {tries} tries: {why}"));
                attempt.result = Some(reason::EXHAUSTED);
            }
        }
        let has_failed = attempt.state.completion() == Completion::Failed;
        let on_error = || self.error_phase(&name).filter(|_| has_failed);
        let to = to.or_else(|| on_error().map(str::to_owned));
        let then = self.then(&name, to.as_deref(), &attempt, now);
        let mut pass = PassResult {
            object,
            then,
            events: Vec::new(),
            run: None,
        };
        pass.record(&name, to.as_deref(), &attempt, &last, handler);
        pass.run = Some(HandlerRun::new(&name, to.clone(), &attempt.state));
        let status = pass.object.phases_mut();
        let is_failure = attempt.state.completion().is_failure();
        status.reason = is_failure.then(|| error_summary(handler, &attempt.state));
        status.state.insert(name, attempt.state);
        if let Some(to) = to {
            // A phase that is entered again starts with empty state.
            status.state.remove(&to);
            status.audit.remove(&to);
            status.phase = to;
        }
        pass
    }

    fn approval(&self, object: &R) -> Approval {
        let audit = object
            .phases()
            .and_then(|status| status.audit.get(self.phase_of(object)));
        audit.map_or(Approval::Pending, |audit| audit.result)
    }

    /// Runs the handler within the time that remains of the phase's timeout.
    async fn attempt(
        &self,
        context: &HandlerContext<R>,
        object: &R,
        phase: Option<&Phase<R>>,
        last: &HandlerState,
    ) -> Attempt<R> {
        let now = context.clock().now();
        let name = object.phase();
        let Some((phase, handler)) = phase.and_then(|phase| Some((phase, phase.handler.as_ref()?))) else {
            let error = format!("Handler for phase {name} not found");
            return Attempt::bad(last, now, error, None);
        };
        if phase.approval && self.approval(object) == Approval::Rejected {
            let audit = object
                .phases()
                .and_then(|status| status.audit.get(name))
                .cloned()
                .unwrap_or_default();
            let by = if audit.by.is_empty() {
                String::new()
            } else {
                format!(" by {}", audit.by)
            };
            let why = if audit.message.is_empty() {
                String::new()
            } else {
                format!(": {}", audit.message)
            };
            return Attempt::bad(last, now, format!("rejected{by}{why}"), Some(reason::REJECTED));
        }
        let cancel = context.cancel().child_token();
        let run = run(
            &self.is_fatal,
            handler,
            context.at(Arc::new(object.clone()), last, cancel.clone()),
        );
        let Some(limit) = phase.timeout else {
            return Attempt::of(run.await);
        };
        let late = |state: &HandlerState, now| {
            let error = format!("phase {name} timed out after {limit:?}");
            Attempt::bad(state, now, error, Some(reason::TIMED_OUT))
        };
        let left = remaining(last, limit, now);
        if left.is_zero() {
            return late(last, now);
        }
        tokio::pin!(run);
        let (ran, in_time) = tokio::select! {
            biased;
            ran = &mut run => (ran, true),
            () = tokio::time::sleep(left) => {
                cancel.cancel();
                (run.await, false)
            }
        };
        // Work that was completed while it was being cancelled counts; a fatal failure keeps its own reason.
        if in_time || ran.state.completion().is_end() {
            Attempt::of(ran)
        } else {
            late(&ran.state, context.clock().now())
        }
    }

    /// The phase that follows when the handler is done and did not fail. A missing or undeclared next phase is a failure.
    fn target(&self, name: &str, attempt: &mut Attempt<R>, now: Timestamp) -> Option<String> {
        if attempt.state.completion() != Completion::Succeeded {
            return None;
        }
        let then = || self.get(name).and_then(|phase| phase.then.clone());
        match attempt.next.take().or_else(then) {
            Some(to) if self.declares(&to) => return Some(to),
            Some(to) => attempt
                .state
                .end_badly(now, format!("phase {name} leads to {to}, which is not declared")),
            None => attempt
                .state
                .end_badly(now, format!("phase {name} is done and has no next phase")),
        }
        None
    }

    fn then(&self, name: &str, to: Option<&str>, attempt: &Attempt<R>, now: Timestamp) -> NextPass {
        if let Some(to) = to {
            return if self.is_terminal_phase(to) {
                NextPass::Stop
            } else {
                NextPass::After(self.defer_interval(to))
            };
        }
        let defer = self.defer_interval(name);
        let state = &attempt.state;
        let wait = if state.completion().is_failure() {
            self.retry_delay(state.failures, defer)
        } else {
            attempt.after.unwrap_or(defer)
        };
        // The next pass must not be later than the timeout, however long the backoff is.
        let limit = self.get(name).and_then(|phase| phase.timeout);
        NextPass::After(limit.map_or(wait, |limit| wait.min(remaining(state, limit, now))))
    }
}

/// The last state of a phase. A phase that failed fatally, but is still the object's phase because it has no error phase, is
/// retried: its failure is cleared, its start time and its count of failures are kept.
pub(super) fn last_state<R: Phased>(object: &R, phase: &str) -> HandlerState {
    let mut last = object
        .phases()
        .and_then(|status| status.state.get(phase))
        .cloned()
        .unwrap_or_default();
    if last.completion() == Completion::Failed {
        let began = last.start_time.clone();
        let failures = last.failures;
        clear_failed(&mut last, &mut Vec::new(), &mut |_, _| {});
        last.start_time = began;
        last.failures = failures;
    }
    last
}

/// The time that remains of a phase's timeout.
fn remaining(state: &HandlerState, limit: Duration, now: Timestamp) -> Duration {
    let spent = state.start_time.as_ref().map(|start| now.duration_since(start.0));
    let spent = spent
        .and_then(|spent| Duration::try_from(spent).ok())
        .unwrap_or_default();
    limit.saturating_sub(spent)
}

/// Applies the changes that handlers returned. They cannot change the machine's own part of the status, except for `pause`.
pub(super) fn apply<R: Phased>(object: &mut R, attempt: &mut Attempt<R>, now: Timestamp) {
    let kept = object.phases().cloned().unwrap_or_default();
    let changes = std::mem::take(&mut attempt.changes);
    let mut changed = object.clone();
    if apply_changes(&changes, &mut changed).is_err() {
        attempt
            .state
            .end_badly(now, "a change of the status panicked".to_owned());
        return;
    }
    let pause = changed.phases().is_some_and(|status| status.pause);
    *changed.phases_mut() = kept;
    changed.phases_mut().pause = pause;
    *object = changed;
}

/// The errors of a handler in one line.
pub(super) fn error_summary<R>(handler: Option<&PhaseHandler<R>>, state: &HandlerState) -> String {
    if let Some(error) = &state.error {
        return error.clone();
    }
    let all = errors(handler, state, "").into_iter();
    all.map(|(path, error)| format!("{path}: {error}"))
        .collect::<Vec<_>>()
        .join("; ")
}

// --- PassResult ---

impl<R> PassResult<R> {
    fn record(
        &mut self,
        name: &str,
        to: Option<&str>,
        attempt: &Attempt<R>,
        last: &HandlerState,
        handler: Option<&PhaseHandler<R>>,
    ) {
        let state = &attempt.state;
        if let Some(warning) = state
            .warning
            .as_ref()
            .filter(|warning| last.warning.as_ref() != Some(warning))
        {
            self.events.push(PhaseEvent::warning(
                reason::WARNED,
                format!("phase {name}: {warning}"),
            ));
        }
        if state.completion().is_failure() {
            let why = error_summary(handler, state);
            let (reason, note) = match self.then {
                NextPass::After(wait) if to.is_none() => (
                    reason::RETRY,
                    format!(
                        "phase {name}: try {} failed, again in {wait:?}: {why}",
                        state.failures
                    ),
                ),
                _ => (
                    attempt.result.unwrap_or(reason::FAILED),
                    format!("phase {name} failed: {why}"),
                ),
            };
            self.events.push(PhaseEvent::warning(reason, note));
        }
        if let Some(to) = to {
            self.events
                .push(PhaseEvent::normal(reason::CHANGED, format!("{name} -> {to}")));
        }
    }
}

impl HandlerRun {
    fn new(phase: &str, to: Option<String>, state: &HandlerState) -> Self {
        let span = state.start_time.as_ref().zip(state.end_time.as_ref());
        let failed = match state.completion() {
            Completion::Failed => Some(Severity::Fatal),
            Completion::Retrying => Some(Severity::Retry),
            Completion::Unfinished | Completion::Succeeded => None,
        };
        let duration = span.and_then(|(start, end)| Duration::try_from(end.0.duration_since(start.0)).ok());
        HandlerRun {
            phase: phase.to_owned(),
            to,
            failed,
            duration,
        }
    }
}

// --- Attempt ---

impl<R> Attempt<R> {
    pub(super) fn of(ran: HandlerOutcome<R>) -> Self {
        let HandlerOutcome {
            state,
            changes,
            next,
            after,
            ..
        } = ran;
        Attempt {
            state,
            changes,
            next,
            after,
            result: None,
        }
    }

    /// A fatal failure of the phase, whatever its handler has completed so far.
    fn bad(state: &HandlerState, now: Timestamp, error: String, result: Option<&'static str>) -> Self {
        let mut state = state.clone();
        state.end_badly(now, error);
        Attempt {
            state,
            changes: Vec::new(),
            next: None,
            after: None,
            result,
        }
    }
}
