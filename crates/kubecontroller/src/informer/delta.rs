//! What a handler is told.

use std::sync::Arc;

/// A change of an object. It holds pointers: nobody clones the object.
#[derive(Debug)]
pub enum Delta<T> {
    /// It is there.
    Added {
        /// The object.
        new: Arc<T>,
        /// Whether it was there before: it is part of the first list, or of what a late handler is told first.
        initial: bool,
    },
    /// It has changed.
    Updated {
        /// What it was.
        old: Arc<T>,
        /// What it is.
        new: Arc<T>,
    },
    /// A list after an interruption has it too, in the same or in another version.
    Replaced {
        /// What it was.
        old: Arc<T>,
        /// What it is.
        new: Arc<T>,
    },
    /// Nothing has changed: it is time to look at it again.
    Sync {
        /// The object.
        object: Arc<T>,
    },
    /// It is gone.
    Deleted {
        /// The last known state.
        last: Arc<T>,
        /// Whether the deletion itself was missed: a later list did not have the object, so that `last` may be older than
        /// its last state.
        missed: bool,
    },
}

// --- Delta ---

impl<T> Delta<T> {
    /// What the object was before, as far as it is known.
    pub fn old(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added { .. } => None,
            Delta::Updated { old, .. } | Delta::Replaced { old, .. } => Some(old),
            Delta::Sync { object } => Some(object),
            Delta::Deleted { last, .. } => Some(last),
        }
    }

    /// What the object is now, if it is there.
    #[expect(clippy::new_ret_no_self, reason = "beside `old` it is the only word")]
    pub fn new(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added { new, .. } | Delta::Updated { new, .. } | Delta::Replaced { new, .. } => Some(new),
            Delta::Sync { object } => Some(object),
            Delta::Deleted { .. } => None,
        }
    }

    /// The object, as new as it is known.
    pub fn object(&self) -> &Arc<T> {
        match self {
            Delta::Added { new, .. } | Delta::Updated { new, .. } | Delta::Replaced { new, .. } => new,
            Delta::Sync { object } => object,
            Delta::Deleted { last, .. } => last,
        }
    }
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Delta::Added { new, initial } => Delta::Added {
                new: Arc::clone(new),
                initial: *initial,
            },
            Delta::Updated { old, new } => Delta::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Delta::Replaced { old, new } => Delta::Replaced {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Delta::Sync { object } => Delta::Sync {
                object: Arc::clone(object),
            },
            Delta::Deleted { last, missed } => Delta::Deleted {
                last: Arc::clone(last),
                missed: *missed,
            },
        }
    }
}
