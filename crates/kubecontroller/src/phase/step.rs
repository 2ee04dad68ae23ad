//! What handlers answer.

use std::{fmt, sync::Arc, time::Duration};

use super::{error::PhaseError, state::ObjectState};

/// What a handler answers.
pub type StepResult<R> = Result<Step<R>, PhaseError>;

/// Something a handler wants to have changed in the object's status.
pub(super) type Change<R> = Arc<dyn Fn(&mut R) + Send + Sync>;

/// How far a run of a handler came.
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
    /// The handler has ended well.
    pub fn done() -> Self {
        Step {
            done: true,
            ..Step::not_yet()
        }
    }

    /// The handler has more to do: it is run again after the machine's defer.
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

    /// What a handler of objects answers: the objects it was given, as they are now. Those left out stay as they were.
    pub fn objects(objects: impl IntoIterator<Item = ObjectState>) -> Self {
        Step {
            objects: objects.into_iter().collect(),
            ..Step::not_yet()
        }
    }

    /// With something users should know.
    #[must_use]
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warning = Some(warning.into());
        self
    }

    /// To that phase, instead of the one the transitions name. Counts only if the handler is done, and is the handler of the
    /// phase: a child's wish is not heard.
    #[must_use]
    pub fn next(mut self, phase: impl Into<String>) -> Self {
        self.next = Some(phase.into());
        self
    }

    /// Run again after that time, instead of the machine's defer. For a handler that knows when there is something to do.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// With a change of the object's status, written together with the machine's part of it. What it does outside of the
    /// status is not written. Children that run at once each see the object as it was; their changes are made one after the
    /// other in the order of declaration, so no handler needs a lock. It may be made more than once, upon fresh copies.
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
