//! The state machine and its queries.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    builder::{Phase, StateMachineBuilder},
    context::HandlerContext,
    error::PhaseError,
    handler::{BoxedFuture, PhaseHandler},
    run::IsFatal,
    state::{Completion, HandlerState},
    status::{PhaseStatus, Phased},
};
use crate::Backoff;

/// The maximum of the default backoff. A longer defer interval takes precedence.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);

/// A state machine for the objects of a kind. See the [module documentation](super).
pub struct StateMachine<R> {
    pub(super) name: String,
    pub(super) initial: String,
    /// The phases that have a handler, in declaration order. The terminal ones are in `succeeded` and `failed`.
    pub(super) phases: Vec<(String, Phase<R>)>,
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
    pub(super) defer: Duration,
    pub(super) backoff: Option<Backoff>,
    pub(super) is_fatal: IsFatal,
    pub(super) prepare: Option<Prepare<R>>,
    pub(super) cleanup: Option<PhaseHandler<R>>,
}

pub(super) type Prepare<R> =
    Arc<dyn Fn(HandlerContext<R>) -> BoxedFuture<Result<HandlerContext<R>, PhaseError>> + Send + Sync>;

// --- Machine ---

impl<R: Phased> StateMachine<R> {
    /// Starts the declaration of a machine. The name is that of the activity: barriers, metrics and events use it.
    pub fn builder(name: &str) -> StateMachineBuilder<R> {
        StateMachineBuilder::new(name)
    }

    pub(super) fn empty(name: &str) -> Self {
        StateMachine {
            name: name.to_owned(),
            initial: String::new(),
            phases: Vec::new(),
            succeeded: Vec::new(),
            failed: Vec::new(),
            defer: Duration::from_secs(5),
            backoff: None,
            is_fatal: Arc::new(PhaseError::is_fatal_by_default),
            prepare: None,
            cleanup: None,
        }
    }

    /// The delay after failed tries of a phase with this defer interval.
    pub(super) fn retry_delay(&self, failures: u32, defer: Duration) -> Duration {
        let by_default = || Backoff::exponential(defer, MAX_RETRY_DELAY.max(defer));
        self.backoff.unwrap_or_else(by_default).after(failures)
    }

    /// The name of the activity.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The plural name of the machine's kind, which is also its name in the configuration.
    pub fn resource(&self) -> String {
        R::plural(&()).into_owned()
    }

    /// The phase of the object; the initial phase if the status has none.
    pub fn phase_of<'o>(&'o self, object: &'o R) -> &'o str {
        match object.phase() {
            "" => &self.initial,
            phase => phase,
        }
    }

    /// Whether the object is in a terminal phase.
    pub fn is_terminal(&self, object: &R) -> bool {
        self.is_terminal_phase(object.phase())
    }

    /// Whether the object is in a failed phase.
    pub fn is_failed(&self, object: &R) -> bool {
        self.failed.iter().any(|failed| failed == object.phase())
    }

    /// Whether the object needs work: it is not in a terminal phase, or it is terminating. For use in predicates.
    pub fn needs_work(&self, object: &R) -> bool {
        !self.is_terminal(object) || object.meta().deletion_timestamp.is_some()
    }

    /// The first error of the phase that the object failed in or is in. Errors of objects precede the error of the handler,
    /// which precedes those of its children in declaration order.
    pub fn failed_reason(&self, object: &R) -> Option<String> {
        let phase = self.working_phase(object);
        let state = object.phases()?.state.get(phase)?;
        let handler = self.get(phase).and_then(|phase| phase.handler.as_ref());
        errors(handler, state, "")
            .into_iter()
            .next()
            .map(|(_, error)| error)
    }

    /// The phase of interest to users: the current one, or, in a terminal phase, the one that led there.
    pub(super) fn working_phase<'o>(&'o self, object: &'o R) -> &'o str {
        let phase = self.phase_of(object);
        let Some(status) = object.phases().filter(|_| self.is_terminal_phase(phase)) else {
            return phase;
        };
        let ended = status.state.iter().filter(|(name, _)| self.get(name).is_some());
        let last = ended
            .max_by_key(|(_, state)| state.end_time.as_ref())
            .map(|(name, _)| name.as_str());
        let origin = self.origin(status).filter(|_| self.is_failed(object));
        origin.or(last).unwrap_or(phase)
    }

    /// The phase whose failure led to the current phase. A phase that this version of the program no longer declares is
    /// considered only if the declared one did not fail.
    pub(super) fn origin<'o>(&'o self, status: &'o PhaseStatus) -> Option<&'o str> {
        let failed = |phase: &&str| {
            status
                .state
                .get(*phase)
                .is_some_and(|state| state.completion() == Completion::Failed)
        };
        let named = self
            .phases
            .iter()
            .find(|(_, phase)| phase.on_error.as_deref() == Some(&status.phase));
        let named = named.map(|(name, _)| name.as_str());
        let undeclared = status
            .state
            .keys()
            .map(String::as_str)
            .filter(|phase| !self.declares(phase));
        named
            .filter(failed)
            .or_else(|| undeclared.filter(|phase| *phase != super::CLEANUP).find(failed))
            .or(named)
    }

    pub(super) fn get(&self, phase: &str) -> Option<&Phase<R>> {
        self.phases
            .iter()
            .find_map(|(name, found)| (name == phase).then_some(found))
    }

    pub(super) fn is_terminal_phase(&self, phase: &str) -> bool {
        self.succeeded.iter().chain(&self.failed).any(|end| end == phase)
    }

    pub(super) fn declares(&self, phase: &str) -> bool {
        self.is_terminal_phase(phase) || self.get(phase).is_some()
    }

    /// The phase that follows a failure. Objects in a phase of an earlier version of the program, which is no longer
    /// declared, move to the first failed phase.
    pub(super) fn error_phase(&self, phase: &str) -> Option<&str> {
        match self.get(phase) {
            Some(phase) => phase.on_error.as_deref(),
            None => self.failed.first().map(String::as_str),
        }
    }

    pub(super) fn defer_interval(&self, phase: &str) -> Duration {
        self.get(phase)
            .and_then(|phase| phase.defer)
            .unwrap_or(self.defer)
    }
}

/// All errors in a state with their paths: first those of objects, then the handler's own, then those of its children.
pub(super) fn errors<R>(
    handler: Option<&PhaseHandler<R>>,
    state: &HandlerState,
    path: &str,
) -> Vec<(String, String)> {
    let failed = state
        .objects
        .iter()
        .filter_map(|object| Some((object.id.clone(), object.error.clone()?)));
    let mut found: Vec<_> = failed.collect();
    if found.is_empty() || !state.completion().is_end() {
        found.extend(state.error.iter().map(|error| (path.to_owned(), error.clone())));
    }
    let declared = handler.map_or(&[][..], PhaseHandler::children).iter();
    let declared: Vec<_> = declared.map(|child| (child.name.as_str(), Some(child))).collect();
    let undeclared = state.state.keys().map(|name| (name.as_str(), None));
    let undeclared = undeclared.filter(|(name, _)| !declared.iter().any(|(known, _)| known == name));
    for (name, child) in declared.iter().copied().chain(undeclared) {
        if let Some(state) = state.state.get(name) {
            found.extend(errors(child, state, name));
        }
    }
    found
}

impl<R> fmt::Debug for StateMachine<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateMachine")
            .field("name", &self.name)
            .field("initial", &self.initial)
            .field("phases", &self.phases)
            .field("succeeded", &self.succeeded)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
