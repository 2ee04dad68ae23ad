//! How machines are declared.

use std::{sync::Arc, time::Duration};

use super::{
    backoff::Backoff,
    context::Context,
    error::PhaseError,
    handler::Handler,
    machine::Machine,
    status::Phased,
    validation::{MachineErrors, validation_errors},
};

/// A machine being declared. See [`Machine::builder`].
pub struct Builder<R> {
    pub(super) machine: Machine<R>,
    /// Phases that were declared more than once; the last counts.
    pub(super) repeated: Vec<String>,
}

/// A phase in which something is done.
pub struct Phase<R> {
    pub(super) handler: Option<Handler<R>>,
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

impl<R: Phased> Builder<R> {
    pub(super) fn new(name: &str) -> Self {
        Builder {
            machine: Machine::empty(name),
            repeated: Vec::new(),
        }
    }

    /// The phase of objects that have none. Default: the first that is declared.
    #[must_use]
    pub fn initial(mut self, phase: impl Into<String>) -> Self {
        self.machine.initial = phase.into();
        self
    }

    /// With a phase in which something is done.
    #[must_use]
    pub fn phase(mut self, name: impl Into<String>, phase: Phase<R>) -> Self {
        let (name, mut phase) = (name.into(), phase);
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

    /// With a phase in which nothing more is done, all having gone well.
    #[must_use]
    pub fn succeeded(mut self, phase: impl Into<String>) -> Self {
        self.machine.succeeded.push(phase.into());
        self
    }

    /// With a phase in which nothing more is done, something having failed. [`Machine::reset`] leads out of it.
    #[must_use]
    pub fn failed(mut self, phase: impl Into<String>) -> Self {
        self.machine.failed.push(phase.into());
        self
    }

    /// How long to wait between two passes over an object. Default: 5 s. Zero makes a handler that is not done a busy loop.
    #[must_use]
    pub fn defer(mut self, defer: Duration) -> Self {
        self.machine.defer = defer;
        self
    }

    /// How the wait grows when tries fail. Default: doubled each time, up to 5 minutes, beginning with the defer.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.machine.backoff = backoff;
        self
    }

    /// Whether an error that does not say so itself is fatal. Default: [`PhaseError::looks_fatal`].
    #[must_use]
    pub fn is_fatal(mut self, judge: impl Fn(&PhaseError) -> bool + Send + Sync + 'static) -> Self {
        self.machine.judge = Arc::new(judge);
        self
    }

    /// Asked in each pass, of objects that are not paused, before anything is done: adds to the context what handlers need
    /// and only the object tells, such as a client of what it names. A failure is retried as a failure to fetch the object
    /// is.
    #[must_use]
    pub fn prepare<F, Fut>(mut self, prepare: F) -> Self
    where
        F: Fn(Context<R>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Context<R>, PhaseError>> + Send + 'static,
    {
        self.machine.prepare = Some(Arc::new(move |context| Box::pin(prepare(context))));
        self
    }

    /// Run when an object is deleted, in whatever phase it is, until it is done; tried again for ever if it fails. Objects of
    /// a machine with a clean-up get the finalizer `<group>/ongoing` before anything else is done with them.
    #[must_use]
    pub fn cleanup(mut self, handler: Handler<R>) -> Self {
        let named = !handler.name.is_empty();
        self.machine.cleanup = Some(if named {
            handler
        } else {
            handler.named(super::CLEANUP)
        });
        self
    }

    /// The machine, or everything that is wrong with it.
    pub fn build(self) -> Result<Machine<R>, MachineErrors> {
        match validation_errors(&self) {
            none if none.list().is_empty() => Ok(self.machine),
            some => Err(some),
        }
    }

    /// The machine, whatever is wrong with it; for machines that are put together from data. What is wrong then shows in the
    /// objects: a phase without a handler fails, and so does a composite without children.
    pub fn build_unchecked(self) -> Machine<R> {
        self.machine
    }
}

// --- Phase ---

impl<R> Phase<R> {
    /// A phase with its handler.
    pub fn run(handler: Handler<R>) -> Self {
        Phase {
            handler: Some(handler),
            ..Phase::default()
        }
    }

    /// With words for users. Default: those of the handler.
    #[must_use]
    pub fn desc(mut self, desc: impl Into<String>) -> Self {
        self.desc = desc.into();
        self
    }

    /// With the phase that follows when the handler is done.
    #[must_use]
    pub fn then(mut self, phase: impl Into<String>) -> Self {
        self.then = Some(phase.into());
        self
    }

    /// With the phase that follows when the handler has failed for good. No two phases may have the same, for then a reset
    /// would not know where to go back to. A phase without one is tried for ever.
    #[must_use]
    pub fn on_error(mut self, phase: impl Into<String>) -> Self {
        self.on_error = Some(phase.into());
        self
    }

    /// Says that the handler may choose that phase with [`Step::next`](super::Step::next). It may choose others too; said
    /// here, the phase counts as reachable and is in the picture.
    #[must_use]
    pub fn jumps_to(mut self, phase: impl Into<String>) -> Self {
        self.jumps.push(phase.into());
        self
    }

    /// How long the phase may take, from its first try to its end, waits between tries included. Then it fails for good.
    /// Default: for ever.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How many tries in a row may fail. The last of them fails for good. Default: any number.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = Some(tries);
        self
    }

    /// How long to wait between two passes in this phase. Default: the machine's.
    #[must_use]
    pub fn defer(mut self, defer: Duration) -> Self {
        self.defer = Some(defer);
        self
    }

    /// The phase begins when somebody has approved it, and fails if somebody rejects it; see
    /// [`Action::Audit`](super::Action::Audit). Its time does not run while it waits. It is asked for again when the phase is
    /// entered again, by a transition or by a reset.
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

impl<R: Phased> std::fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Builder").field(&self.machine).finish()
    }
}
