//! Machines.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    backoff::Backoff,
    builder::{Builder, Phase},
    context::Context,
    error::PhaseError,
    handler::{BoxedFuture, Handler},
    run::Judge,
    state::State,
    status::{PhaseStatus, Phased},
};

/// A state machine over the objects of a kind.
pub struct Machine<R> {
    pub(super) name: String,
    pub(super) initial: String,
    /// Those in which something is done, in the order of declaration.
    pub(super) phases: Vec<(String, Phase<R>)>,
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
    pub(super) defer: Duration,
    pub(super) backoff: Backoff,
    pub(super) judge: Judge,
    pub(super) prepare: Option<Prepare<R>>,
    pub(super) cleanup: Option<Handler<R>>,
}

pub(super) type Prepare<R> =
    Arc<dyn Fn(Context<R>) -> BoxedFuture<Result<Context<R>, PhaseError>> + Send + Sync>;

// --- Machine ---

impl<R: Phased> Machine<R> {
    /// Begins to declare a machine. The name is that of the activity: barriers, metrics and events use it.
    pub fn builder(name: &str) -> Builder<R> {
        Builder::new(name)
    }

    pub(super) fn empty(name: &str) -> Self {
        Machine {
            name: name.to_owned(),
            initial: String::new(),
            phases: Vec::new(),
            succeeded: Vec::new(),
            failed: Vec::new(),
            defer: Duration::from_secs(5),
            backoff: Backoff::default(),
            judge: Arc::new(PhaseError::looks_fatal),
            prepare: None,
            cleanup: None,
        }
    }

    /// The name of the activity.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the machine is for: the plural of its kind, as configuration names it.
    pub fn resource(&self) -> String {
        R::plural(&()).into_owned()
    }

    /// The phase the object is in; the initial one if it has none yet.
    pub fn phase_of<'o>(&'o self, object: &'o R) -> &'o str {
        match object.phase() {
            "" => &self.initial,
            phase => phase,
        }
    }

    /// Whether nothing more is done with the object.
    pub fn is_terminal(&self, object: &R) -> bool {
        self.ends(object.phase())
    }

    /// Whether the object ended badly.
    pub fn is_failed(&self, object: &R) -> bool {
        self.failed.iter().any(|failed| failed == object.phase())
    }

    /// Whether there is anything to do with the object: it has not ended, or is being deleted. The predicate for the
    /// controller's source.
    pub fn wants(&self, object: &R) -> bool {
        !self.is_terminal(object) || object.meta().deletion_timestamp.is_some()
    }

    /// The first error there is, of the phase the object failed in or is in: of its objects, then of the handler, then of its
    /// children in order.
    pub fn failed_reason(&self, object: &R) -> Option<String> {
        let phase = self.working_phase(object);
        let state = object.phases()?.state.get(phase)?;
        let handler = self.get(phase).and_then(|phase| phase.handler.as_ref());
        errors(handler, state, "")
            .into_iter()
            .next()
            .map(|(_, error)| error)
    }

    /// The phase to look at: the one the object is in, or, when it has ended, the one that led there.
    pub(super) fn working_phase<'o>(&'o self, object: &'o R) -> &'o str {
        let phase = self.phase_of(object);
        let Some(status) = object.phases().filter(|_| self.ends(phase)) else {
            return phase;
        };
        let ended = status.state.iter().filter(|(name, _)| self.get(name).is_some());
        let last = ended
            .max_by_key(|(_, state)| state.end_time.as_ref())
            .map(|(name, _)| name.as_str());
        let origin = self.origin(status).filter(|_| self.is_failed(object));
        origin.or(last).unwrap_or(phase)
    }

    /// Where the failure that led to the phase happened. A phase the machine does not know can have led there too, but only
    /// if the one that should have did not fail.
    pub(super) fn origin<'o>(&'o self, status: &'o PhaseStatus) -> Option<&'o str> {
        let failed = |phase: &&str| {
            status
                .state
                .get(*phase)
                .is_some_and(|state| state.done && state.failed)
        };
        let named = self
            .phases
            .iter()
            .find(|(_, phase)| phase.on_error.as_deref() == Some(&status.phase));
        let named = named.map(|(name, _)| name.as_str());
        let strange = status
            .state
            .keys()
            .map(String::as_str)
            .filter(|phase| !self.knows(phase));
        named
            .filter(failed)
            .or_else(|| strange.filter(|phase| *phase != super::CLEANUP).find(failed))
            .or(named)
    }

    pub(super) fn get(&self, phase: &str) -> Option<&Phase<R>> {
        self.phases
            .iter()
            .find_map(|(name, found)| (name == phase).then_some(found))
    }

    pub(super) fn ends(&self, phase: &str) -> bool {
        self.succeeded.iter().chain(&self.failed).any(|end| end == phase)
    }

    pub(super) fn knows(&self, phase: &str) -> bool {
        self.ends(phase) || self.get(phase).is_some()
    }

    /// Where a failure in the phase leads. A phase that a former version of the program had is not declared any more: its
    /// objects end in the first failed phase there is.
    pub(super) fn error_phase(&self, phase: &str) -> Option<&str> {
        match self.get(phase) {
            Some(phase) => phase.on_error.as_deref(),
            None => self.failed.first().map(String::as_str),
        }
    }

    pub(super) fn defer_of(&self, phase: &str) -> Duration {
        self.get(phase)
            .and_then(|phase| phase.defer)
            .unwrap_or(self.defer)
    }
}

/// All errors of a state, each with the path to it: objects first, then the handler's own, then those of children.
pub(super) fn errors<R>(handler: Option<&Handler<R>>, state: &State, path: &str) -> Vec<(String, String)> {
    let failed = state
        .objects
        .iter()
        .filter_map(|object| Some((object.id.clone(), object.error.clone()?)));
    let mut found: Vec<_> = failed.collect();
    if found.is_empty() || !state.done {
        found.extend(state.error.iter().map(|error| (path.to_owned(), error.clone())));
    }
    let declared = handler.map_or(&[][..], Handler::children).iter();
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

impl<R> fmt::Debug for Machine<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("name", &self.name)
            .field("initial", &self.initial)
            .field("phases", &self.phases)
            .field("succeeded", &self.succeeded)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
