//! One run of the handler of a phase, and what follows from it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tracing::{Instrument, info_span};

use super::{
    builder::Phase,
    context::Context,
    error::Severity,
    handler::Handler,
    machine::{Machine, errors},
    pass::{HandlerRun, NextPass, Pass},
    phase_event::{PhaseEvent, reason},
    run::{Ran, make, run},
    state::State,
    status::{Approval, Phased},
    step::Change,
    tree::clear_failed,
};

/// A run, and what is to be said of it.
pub(super) struct Attempt<R> {
    pub(super) state: State,
    changes: Vec<Change<R>>,
    next: Option<String>,
    pub(super) after: Option<Duration>,
    /// Why the phase ended badly, if it was not the handler that said so.
    result: Option<&'static str>,
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// Runs the handler of the phase an object is in, and says what follows.
    pub(super) async fn work(&self, context: &Context<R>, object: R) -> Pass<R> {
        let name = object.phase().to_owned();
        let phase = self.get(&name);
        if phase.is_some_and(|phase| phase.approval && self.approval(&object) == Approval::Pending) {
            return Pass::idle(object, NextPass::Stop);
        }
        let last = last(&object, &name);
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
        if attempt.state.failed {
            attempt.state.failures = last.failures.saturating_add(1);
            let given_up = phase
                .and_then(|phase| phase.tries)
                .filter(|tries| attempt.state.failures >= *tries);
            if let Some(tries) = given_up.filter(|_| !attempt.state.fatal) {
                let why = told(handler, &attempt.state);
                attempt
                    .state
                    .end_badly(now, format!("gave up after {tries} tries: {why}"));
                attempt.result = Some(reason::EXHAUSTED);
            }
        }
        let to = to.or_else(|| {
            attempt
                .state
                .fatal
                .then(|| self.error_phase(&name).map(str::to_owned))
                .flatten()
        });
        let then = self.then(&name, to.as_deref(), &attempt, now);
        let mut pass = Pass {
            object,
            then,
            notices: Vec::new(),
            worked: None,
        };
        pass.tell(&name, to.as_deref(), &attempt, &last, handler);
        pass.worked = Some(HandlerRun::new(&name, to.clone(), &attempt.state));
        let status = pass.object.phases_mut();
        status.reason = attempt.state.failed.then(|| told(handler, &attempt.state));
        status.state.insert(name, attempt.state);
        if let Some(to) = to {
            // A phase that is entered again begins afresh.
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

    /// One try, within what is left of the phase's time.
    async fn attempt(
        &self,
        context: &Context<R>,
        object: &R,
        phase: Option<&Phase<R>>,
        last: &State,
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
            &self.judge,
            handler,
            context.at(Arc::new(object.clone()), last, cancel.clone()),
        );
        let Some(limit) = phase.timeout else {
            return Attempt::of(run.await);
        };
        let late = |state: &State, now| {
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
        // What was done at the last moment is done; what failed for good has its own reason.
        if in_time || ran.state.done {
            Attempt::of(ran)
        } else {
            late(&ran.state, context.clock().now())
        }
    }

    /// Where the object goes when the handler is done and did not fail. That there is nowhere to go is a failure.
    fn target(&self, name: &str, attempt: &mut Attempt<R>, now: Timestamp) -> Option<String> {
        if !attempt.state.done || attempt.state.failed {
            return None;
        }
        let then = || self.get(name).and_then(|phase| phase.then.clone());
        match attempt.next.take().or_else(then) {
            Some(to) if self.knows(&to) => return Some(to),
            Some(to) => attempt
                .state
                .end_badly(now, format!("phase {name} leads to {to}, which is not known")),
            None => attempt
                .state
                .end_badly(now, format!("phase {name} is done and leads nowhere")),
        }
        None
    }

    fn then(&self, name: &str, to: Option<&str>, attempt: &Attempt<R>, now: Timestamp) -> NextPass {
        if let Some(to) = to {
            return if self.ends(to) {
                NextPass::Stop
            } else {
                NextPass::After(self.defer_of(to))
            };
        }
        let defer = self.defer_of(name);
        let state = &attempt.state;
        let wait = if state.failed {
            self.backoff.delay(state.failures, defer)
        } else {
            attempt.after.unwrap_or(defer)
        };
        // The phase ends on time, however long the next try is put off.
        let limit = self.get(name).and_then(|phase| phase.timeout);
        NextPass::After(limit.map_or(wait, |limit| wait.min(remaining(state, limit, now))))
    }
}

/// What is known of a phase. If it failed for good and still is the object's phase, having no other to go to, the failure
/// is forgotten and the phase is tried again.
pub(super) fn last<R: Phased>(object: &R, phase: &str) -> State {
    let mut last = object
        .phases()
        .and_then(|status| status.state.get(phase))
        .cloned()
        .unwrap_or_default();
    if last.done && last.failed {
        let (began, failures) = (last.start_time.clone(), last.failures);
        clear_failed(&mut last, &mut Vec::new(), &mut |_, _| {});
        (last.start_time, last.failures) = (began, failures);
    }
    last
}

/// What is left of a phase's time.
fn remaining(state: &State, limit: Duration, now: Timestamp) -> Duration {
    let spent = state.start_time.as_ref().map(|start| now.duration_since(start.0));
    let spent = spent
        .and_then(|spent| Duration::try_from(spent).ok())
        .unwrap_or_default();
    limit.saturating_sub(spent)
}

/// Makes the changes that handlers asked for. What the machine itself keeps in the status they cannot change, but for the
/// pause.
pub(super) fn apply<R: Phased>(object: &mut R, attempt: &mut Attempt<R>, now: Timestamp) {
    let kept = object.phases().cloned().unwrap_or_default();
    let changes = std::mem::take(&mut attempt.changes);
    let mut changed = object.clone();
    if make(&changes, &mut changed).is_err() {
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

/// What went wrong, in one line.
pub(super) fn told<R>(handler: Option<&Handler<R>>, state: &State) -> String {
    if let Some(error) = &state.error {
        return error.clone();
    }
    let all = errors(handler, state, "").into_iter();
    all.map(|(path, error)| format!("{path}: {error}"))
        .collect::<Vec<_>>()
        .join("; ")
}

// --- Pass ---

impl<R> Pass<R> {
    fn tell(
        &mut self,
        name: &str,
        to: Option<&str>,
        attempt: &Attempt<R>,
        last: &State,
        handler: Option<&Handler<R>>,
    ) {
        let state = &attempt.state;
        if let Some(warning) = state
            .warning
            .as_ref()
            .filter(|warning| last.warning.as_ref() != Some(warning))
        {
            self.notices.push(PhaseEvent::warning(
                reason::WARNED,
                format!("phase {name}: {warning}"),
            ));
        }
        if state.failed {
            let why = told(handler, state);
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
            self.notices.push(PhaseEvent::warning(reason, note));
        }
        if let Some(to) = to {
            self.notices
                .push(PhaseEvent::normal(reason::CHANGED, format!("{name} -> {to}")));
        }
    }
}

impl HandlerRun {
    fn new(phase: &str, to: Option<String>, state: &State) -> Self {
        let span = state.start_time.as_ref().zip(state.end_time.as_ref());
        let severity = if state.fatal {
            Severity::Fatal
        } else {
            Severity::Retry
        };
        let failed = state.failed.then_some(severity);
        let took = span.and_then(|(start, end)| Duration::try_from(end.0.duration_since(start.0)).ok());
        HandlerRun {
            phase: phase.to_owned(),
            to,
            failed,
            took,
        }
    }
}

// --- Attempt ---

impl<R> Attempt<R> {
    pub(super) fn of(ran: Ran<R>) -> Self {
        let Ran {
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

    /// A phase that ended badly, whatever its handler has done so far.
    fn bad(state: &State, now: Timestamp, error: String, result: Option<&'static str>) -> Self {
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
