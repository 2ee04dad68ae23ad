//! Declaration of state machines.

use std::{sync::Arc, time::Duration};

use super::{
    context::HandlerContext,
    error::PhaseError,
    handler::PhaseHandler,
    state_machine::StateMachine,
    status::Phased,
    validation::{StateMachineValidationError, validation_errors},
};
use crate::Backoff;

/// Declares a state machine. Created by [`StateMachine::builder`].
pub struct StateMachineBuilder<R> {
    pub(super) machine: StateMachine<R>,
    /// Phases that were declared more than once; the last declaration wins.
    pub(super) repeated: Vec<String>,
}

/// A phase with a handler.
pub struct Phase<R> {
    pub(super) handler: Option<PhaseHandler<R>>,
    pub(super) desc: String,
    pub(super) then: Option<String>,
    pub(super) on_error: Option<String>,
    pub(super) jumps: Vec<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) tries: Option<u32>,
    pub(super) defer: Option<Duration>,
    pub(super) approval: bool,
}

// --- Builder ---

impl<R: Phased> StateMachineBuilder<R> {
    pub(super) fn new(name: &str) -> Self {
        StateMachineBuilder {
            machine: StateMachine::empty(name),
            repeated: Vec::new(),
        }
    }

    /// Sets the phase of objects that have none yet. Default: the phase declared first.
    #[must_use]
    pub fn initial(mut self, phase: impl Into<String>) -> Self {
        self.machine.initial = phase.into();
        self
    }

    /// Adds a phase with a handler.
    #[must_use]
    pub fn phase(mut self, name: impl Into<String>, phase: Phase<R>) -> Self {
        let name = name.into();
        let mut phase = phase;
        if let Some(handler) = phase.handler.as_mut().filter(|handler| handler.name.is_empty()) {
            handler.name.clone_from(&name);
        }
        if self.machine.initial.is_empty() {
            self.machine.initial.clone_from(&name);
        }
        if let Some(at) = self.machine.phases.iter().position(|(known, _)| *known == name) {
            self.repeated.push(self.machine.phases.remove(at).0);
        }
        self.machine.phases.push((name, phase));
        self
    }

    /// Adds a terminal phase that means success.
    #[must_use]
    pub fn succeeded(mut self, phase: impl Into<String>) -> Self {
        self.machine.succeeded.push(phase.into());
        self
    }

    /// Adds a terminal phase that means failure. [`StateMachine::reset`] returns from it to the phase that failed.
    #[must_use]
    pub fn failed(mut self, phase: impl Into<String>) -> Self {
        self.machine.failed.push(phase.into());
        self
    }

    /// Sets the interval between two passes over an object. Default: 5 s. With zero, a handler that is not done becomes a
    /// busy loop.
    #[must_use]
    pub fn defer(mut self, defer: Duration) -> Self {
        self.machine.defer = defer;
        self
    }

    /// Sets the backoff after failed tries. Default: exponential from the defer interval of the phase up to 5 minutes.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.machine.backoff = Some(backoff);
        self
    }

    /// Sets the function that decides whether an unclassified error is fatal. Default: [`PhaseError::is_fatal_by_default`].
    #[must_use]
    pub fn is_fatal(mut self, is_fatal: impl Fn(&PhaseError) -> bool + Send + Sync + 'static) -> Self {
        self.machine.is_fatal = Arc::new(is_fatal);
        self
    }

    /// Sets a function that extends the context before the handler runs in each pass, unless the object is paused. It adds
    /// values that depend on the object, such as a client for an address in its spec. A failure is retried like a failure to
    /// read the object.
    #[must_use]
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn(HandlerContext<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HandlerContext<R>, PhaseError>> + Send + 'static,
    {
        self.machine.prepare = Some(Arc::new(move |context| Box::pin(prepare(context))));
        self
    }

    /// Sets the handler that runs when an object is deleted, in whatever phase it is, until it is done. A failure is retried
    /// forever. Objects get the finalizer `<group>/ongoing` before any handler runs.
    #[must_use]
    pub fn cleanup(mut self, handler: PhaseHandler<R>) -> Self {
        let named = !handler.name.is_empty();
        self.machine.cleanup = Some(if named {
            handler
        } else {
            handler.named(super::CLEANUP)
        });
        self
    }

    /// Validates the declaration. The error lists all mistakes.
    pub fn build(self) -> Result<StateMachine<R>, StateMachineValidationError> {
        match validation_errors(&self) {
            errors if errors.messages().is_empty() => Ok(self.machine),
            errors => Err(errors),
        }
    }

    /// Builds the machine without validation, for machines that are assembled from data. Mistakes then appear as failures of
    /// objects, for example in a phase without a handler or with a composite that has no children.
    pub fn build_unchecked(self) -> StateMachine<R> {
        self.machine
    }
}

// --- Phase ---

impl<R> Phase<R> {
    /// Creates a phase that runs a handler.
    pub fn run(handler: PhaseHandler<R>) -> Self {
        Phase {
            handler: Some(handler),
            ..Phase::default()
        }
    }

    /// Sets the description shown to users. Default: that of the handler.
    #[must_use]
    pub fn desc(mut self, desc: impl Into<String>) -> Self {
        self.desc = desc.into();
        self
    }

    /// Sets the phase that follows when the handler is done.
    #[must_use]
    pub fn then(mut self, phase: impl Into<String>) -> Self {
        self.then = Some(phase.into());
        self
    }

    /// Sets the phase that follows a fatal failure. Two phases must not share one, because a reset could not know where to
    /// return. A phase without an error phase is retried forever.
    #[must_use]
    pub fn on_error(mut self, phase: impl Into<String>) -> Self {
        self.on_error = Some(phase.into());
        self
    }

    /// Declares a phase that the handler may choose with [`Step::next`](super::Step::next). Handlers may choose undeclared
    /// jumps too, but validation and diagrams know only declared ones.
    #[must_use]
    pub fn jumps_to(mut self, phase: impl Into<String>) -> Self {
        self.jumps.push(phase.into());
        self
    }

    /// Sets how long the phase may take from its first try to its end, including backoff. When it is exceeded, the phase
    /// fails fatally. Default: unlimited.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how many consecutive tries may fail before the phase fails fatally. Default: unlimited.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = Some(tries);
        self
    }

    /// Sets the interval between two passes in this phase. Default: the machine's.
    #[must_use]
    pub fn defer(mut self, defer: Duration) -> Self {
        self.defer = Some(defer);
        self
    }

    /// Requires approval before the phase starts; a rejection fails it. See [`Action::Audit`](super::Action::Audit). The
    /// timeout does not run while the phase waits. Approval is required again whenever the phase is entered again, by a
    /// transition or by a reset.
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.approval = true;
        self
    }
}

impl<R> Default for Phase<R> {
    fn default() -> Self {
        Phase {
            handler: None,
            desc: String::new(),
            then: None,
            on_error: None,
            jumps: Vec::new(),
            timeout: None,
            tries: None,
            defer: None,
            approval: false,
        }
    }
}

impl<R> std::fmt::Debug for Phase<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Phase")
            .field("handler", &self.handler)
            .field("then", &self.then)
            .field("on_error", &self.on_error)
            .finish_non_exhaustive()
    }
}

impl<R: Phased> std::fmt::Debug for StateMachineBuilder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Builder").field(&self.machine).finish()
    }
}
