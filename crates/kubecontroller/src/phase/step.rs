//! The results of handlers.

use std::{fmt, sync::Arc, time::Duration};

use super::{error::PhaseError, state::ObjectState};

/// The result of a handler.
pub type StepResult<R> = Result<Step<R>, PhaseError>;

/// A change of the object's status that a handler returned.
pub(super) type Change<R> = Arc<dyn Fn(&mut R) + Send + Sync>;

/// The outcome of a handler's run that did not fail.
pub struct Step<R> {
    pub(super) done: bool,
    pub(super) warning: Option<String>,
    pub(super) next: Option<String>,
    pub(super) after: Option<Duration>,
    pub(super) objects: Vec<ObjectState>,
    pub(super) changes: Vec<Change<R>>,
}

// --- Step ---

impl<R> Step<R> {
    /// The handler has completed successfully.
    pub fn done() -> Self {
        Step {
            done: true,
            ..Step::not_yet()
        }
    }

    /// The handler has more to do; it runs again after the defer interval.
    pub fn not_yet() -> Self {
        Step {
            done: false,
            warning: None,
            next: None,
            after: None,
            objects: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// The result of a handler created by [`objects`](super::objects): the updated objects. Objects left out stay unchanged.
    pub fn objects(objects: impl IntoIterator<Item = ObjectState>) -> Self {
        Step {
            objects: objects.into_iter().collect(),
            ..Step::not_yet()
        }
    }

    /// Adds a warning for users.
    #[must_use]
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    /// Chooses the next phase instead of the declared one. Takes effect only if the handler is done and is the handler of the
    /// phase; the choice of a child is ignored.
    #[must_use]
    pub fn next(mut self, phase: impl Into<String>) -> Self {
        self.next = Some(phase.into());
        self
    }

    /// Sets the delay until the next run, instead of the defer interval.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Adds a change of the object's status, written together with the machine's part of it. Changes outside the status are
    /// not written. Parallel children all see the object as it was before; their changes are applied in declaration order, so
    /// handlers need no lock. A change may be applied more than once, to fresh copies, so it must be a pure function.
    #[must_use]
    pub fn change(mut self, change: impl Fn(&mut R) + Send + Sync + 'static) -> Self {
        self.changes.push(Arc::new(change));
        self
    }
}

impl<R> fmt::Debug for Step<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Step")
            .field("done", &self.done)
            .field("warning", &self.warning)
            .field("next", &self.next)
            .field("after", &self.after)
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}
