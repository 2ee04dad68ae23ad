//! One pass of a machine over an object, in memory.
//!
//! A pass needs no server: it takes the object and answers what the object is to become, when to come again, and what to tell
//! users. [`PhaseReconciler`](super::PhaseReconciler) fetches and writes around it.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;

use super::{
    CLEANUP,
    context::{Context, MachineEnvironment},
    error::{PhaseError, Severity},
    handler::Handler,
    machine::Machine,
    phase_event::{PhaseEvent, reason},
    run::run,
    status::{Approval, Phased},
    work::{Attempt, apply, last, told},
};

/// When to look at an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPass {
    /// When it changes.
    Stop,
    /// After that time.
    After(Duration),
}

/// What came of a pass.
#[derive(Clone, Debug)]
pub struct Pass<R> {
    /// The object, as it is to be.
    pub object: R,
    /// When to look at it again.
    pub then: NextPass,
    /// What to tell users once the object is written.
    pub notices: Vec<PhaseEvent>,
    /// What the figures are told, if a handler ran.
    pub worked: Option<HandlerRun>,
}

/// What a handler's run came to, for figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerRun {
    /// The phase.
    pub phase: String,
    /// Where the object went, if it left the phase.
    pub to: Option<String>,
    /// Whether the try failed, and then either [`Severity::Fatal`] or [`Severity::Retry`].
    pub failed: Option<Severity>,
    /// From the phase's first try to its end, if it ended.
    pub took: Option<Duration>,
}

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// One pass over an object that is not being deleted. An error is one of `prepare`: nothing has been done.
    pub async fn pass(&self, environment: &MachineEnvironment, object: &R) -> Result<Pass<R>, PhaseError> {
        if let Some(then) = self.held(object, environment.now()) {
            return Ok(Pass::idle(object.clone(), then));
        }
        let context = self.prepared(environment, object).await?;
        if self.is_terminal(object) {
            return Ok(Pass::idle(object.clone(), NextPass::Stop));
        }
        let mut object = object.clone();
        let told = self.begin(&mut object, environment.now());
        let mut pass = self.work(&context, object).await;
        pass.notices.splice(..0, told);
        Ok(pass)
    }

    /// One pass of the clean-up over an object that is being deleted; whether the clean-up is done with it. A machine that
    /// has none always is.
    pub async fn clean(
        &self,
        environment: &MachineEnvironment,
        object: &R,
    ) -> Result<(Pass<R>, bool), PhaseError> {
        let Some(handler) = &self.cleanup else {
            return Ok((Pass::idle(object.clone(), NextPass::Stop), true));
        };
        let context = self.prepared(environment, object).await?;
        let last = last(object, CLEANUP);
        let ran = run(
            &self.judge,
            handler,
            context.at(Arc::new(object.clone()), &last, context.cancel().clone()),
        )
        .await;
        let mut attempt = Attempt::of(ran);
        let mut object = object.clone();
        apply(&mut object, &mut attempt, environment.now());
        let (mut notices, mut then) = (Vec::new(), NextPass::After(attempt.after.unwrap_or(self.defer)));
        if attempt.state.failed {
            attempt.state.failures = last.failures.saturating_add(1);
            let delay = self.backoff.delay(attempt.state.failures, self.defer);
            then = NextPass::After(delay);
            let note = format!(
                "clean-up failed, again in {delay:?}: {}",
                told(Some(handler), &attempt.state)
            );
            notices.push(PhaseEvent::warning(reason::CLEANUP, note));
        }
        let done = attempt.state.done && !attempt.state.failed;
        object
            .phases_mut()
            .state
            .insert(CLEANUP.to_owned(), attempt.state);
        Ok((
            Pass {
                object,
                then,
                notices,
                worked: None,
            },
            done,
        ))
    }

    pub(super) async fn prepared(
        &self,
        environment: &MachineEnvironment,
        object: &R,
    ) -> Result<Context<R>, PhaseError> {
        let context = Context::new(
            environment.clone(),
            Arc::new(object.clone()),
            self.phase_of(object),
        );
        match &self.prepare {
            Some(prepare) => prepare(context).await,
            None => Ok(context),
        }
    }

    /// What must be written before a handler runs: the first phase, so that it is seen; that a phase waits for approval; and
    /// when a phase with a time-out began, so that its time also runs out for a program that dies in it.
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
            let blank = || handler.map(Handler::blank).unwrap_or_default();
            status.state.entry(name).or_insert_with(blank).begin(now);
        }
        None
    }
}

// --- Pass ---

impl<R> Pass<R> {
    pub(super) fn idle(object: R, then: NextPass) -> Self {
        Pass {
            object,
            then,
            notices: Vec::new(),
            worked: None,
        }
    }
}
