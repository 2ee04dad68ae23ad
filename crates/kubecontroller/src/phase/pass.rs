//! One pass of a machine over an object, in memory.
//!
//! A pass needs no server. It returns the changed object, the time of the next pass, and the events to record.
//! [`PhaseReconciler`](super::PhaseReconciler) reads the object before the pass and writes it afterwards.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{
    CLEANUP,
    attempt::{Attempt, apply, error_summary, last_state},
    context::{HandlerContext, MachineEnvironment},
    error::{PhaseError, Severity},
    handler::PhaseHandler,
    phase_event::{PhaseEvent, reason},
    run::run,
    state::Completion,
    state_machine::StateMachine,
    status::{Approval, Phased},
};

/// When the next pass is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPass {
    /// When the object changes.
    Stop,
    /// After this time, or when the object changes.
    After(Duration),
}

/// The result of a pass.
#[derive(Clone, Debug)]
pub struct PassResult<R> {
    /// The object with its new status.
    pub object: R,
    /// When the next pass is due.
    pub then: NextPass,
    /// The events to record once the object is written.
    pub events: Vec<PhaseEvent>,
    /// The run to count in metrics, if a handler ran.
    pub run: Option<HandlerRun>,
}

/// The result of a handler's run, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerRun {
    /// The phase.
    pub phase: String,
    /// The next phase, if the object left the phase.
    pub to: Option<String>,
    /// [`Severity::Fatal`] or [`Severity::Retry`] if the try failed.
    pub failed: Option<Severity>,
    /// The time from the phase's first try to its end, if it ended.
    pub duration: Option<Duration>,
}

/// The next step of a pass.
pub(super) enum PassStep<R> {
    /// Nothing, until then.
    Wait(NextPass),
    /// This finalizer must be stored.
    AddFinalizer(String),
    /// The object is in a terminal phase.
    Ended,
    /// The changes that [`StateMachine::begin`] made must be stored before the handler runs.
    Begin {
        context: HandlerContext<R>,
        object: R,
        event: Option<PhaseEvent>,
    },
    /// The handler runs.
    Run(HandlerContext<R>),
}

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// Runs one pass over an object that is not terminating. An error is one of `prepare`; no handler ran.
    pub async fn pass(
        &self,
        environment: &MachineEnvironment,
        object: &R,
    ) -> Result<PassResult<R>, PhaseError> {
        match self.next_step(environment, object, None).await? {
            PassStep::Wait(then) => Ok(PassResult::idle(object.clone(), then)),
            PassStep::AddFinalizer(_) | PassStep::Ended => {
                Ok(PassResult::idle(object.clone(), NextPass::Stop))
            }
            PassStep::Begin {
                context,
                object,
                event,
            } => {
                let mut pass = self.run_phase(&context, object).await;
                pass.events.splice(..0, event);
                Ok(pass)
            }
            PassStep::Run(context) => Ok(self.run_phase(&context, object.clone()).await),
        }
    }

    /// The next step of a pass over an object that is not terminating. This is the one place that knows the order of steps:
    /// passes in memory and passes over objects of the server take the steps that it returns.
    ///
    /// `finalizer` must be stored before anything else happens; a pass in memory needs none.
    pub(super) async fn next_step(
        &self,
        environment: &MachineEnvironment,
        object: &R,
        finalizer: Option<&str>,
    ) -> Result<PassStep<R>, PhaseError> {
        if let Some(then) = self.blocked(object, environment.now()) {
            return Ok(PassStep::Wait(then));
        }
        let has_ended = self.is_terminal(object);
        let is_missing = |finalizer: &&str| !object.finalizers().iter().any(|one| one == finalizer);
        if !has_ended && let Some(finalizer) = finalizer.filter(is_missing) {
            return Ok(PassStep::AddFinalizer(finalizer.to_owned()));
        }
        let context = self.prepared(environment, object).await?;
        if has_ended {
            return Ok(PassStep::Ended);
        }
        let mut begun = object.clone();
        let event = self.begin(&mut begun, environment.now());
        if begun.phases() == object.phases() {
            return Ok(PassStep::Run(context));
        }
        Ok(PassStep::Begin {
            context,
            object: begun,
            event,
        })
    }

    /// Runs one pass of the clean-up over a terminating object, and returns whether the clean-up is done. A machine without
    /// clean-up is always done.
    pub async fn clean(
        &self,
        environment: &MachineEnvironment,
        object: &R,
    ) -> Result<(PassResult<R>, bool), PhaseError> {
        let Some(handler) = &self.cleanup else {
            return Ok((PassResult::idle(object.clone(), NextPass::Stop), true));
        };
        let context = self.prepared(environment, object).await?;
        let last = last_state(object, CLEANUP);
        let ran = run(
            &self.is_fatal,
            handler,
            context.at(Arc::new(object.clone()), &last, context.cancel().clone()),
        )
        .await;
        let mut attempt = Attempt::of(ran);
        let mut object = object.clone();
        apply(&mut object, &mut attempt, environment.now());
        let mut events = Vec::new();
        let mut then = NextPass::After(attempt.after.unwrap_or(self.defer));
        if attempt.state.completion().is_failure() {
            attempt.state.failures = last.failures.saturating_add(1);
            let delay = self.retry_delay(attempt.state.failures, self.defer);
            then = NextPass::After(delay);
            let note = format!(
                "clean-up failed, again in {delay:?}: {}",
                error_summary(Some(handler), &attempt.state)
            );
            events.push(PhaseEvent::warning(reason::CLEANUP, note));
        }
        let done = attempt.state.completion() == Completion::Succeeded;
        object
            .phases_mut()
            .state
            .insert(CLEANUP.to_owned(), attempt.state);
        Ok((
            PassResult {
                object,
                then,
                events,
                run: None,
            },
            done,
        ))
    }

    pub(super) async fn prepared(
        &self,
        environment: &MachineEnvironment,
        object: &R,
    ) -> Result<HandlerContext<R>, PhaseError> {
        let context = HandlerContext::new(
            environment.clone(),
            Arc::new(object.clone()),
            self.phase_of(object),
        );
        match &self.prepare {
            Some(prepare) => prepare(context).await,
            None => Ok(context),
        }
    }

    /// Sets the fields that must be stored before a handler runs: the initial phase, so that users see it; the pending
    /// approval; and the start of a phase with a timeout, so that the timeout also covers a crash during the first try.
    pub(super) fn begin(&self, object: &mut R, now: Timestamp) -> Option<PhaseEvent> {
        let name = self.phase_of(object).to_owned();
        let status = object.phases_mut();
        status.phase.clone_from(&name);
        let phase = self.get(&name)?;
        if phase.approval {
            let asked = status.audit.contains_key(&name);
            if status.audit.entry(name.clone()).or_default().result != Approval::Passed {
                let note = format!("phase {name} waits for approval");
                return (!asked).then(|| PhaseEvent::normal(reason::APPROVAL, note));
            }
        }
        if phase.timeout.is_some() {
            let handler = phase.handler.as_ref();
            let blank = || handler.map(PhaseHandler::blank).unwrap_or_default();
            status.state.entry(name).or_insert_with(blank).begin(now);
        }
        None
    }
}

// --- PassResult ---

impl<R> PassResult<R> {
    pub(super) fn idle(object: R, then: NextPass) -> Self {
        PassResult {
            object,
            then,
            events: Vec::new(),
            run: None,
        }
    }
}
