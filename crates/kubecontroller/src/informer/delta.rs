//! The change that an event handler receives.

use std::sync::Arc;

/// A change of an object, in client-go's terms. Deltas share the objects of the store: cloning one copies a pointer.
#[derive(Debug)]
pub enum Delta<T> {
    /// The object was added to the store.
    Added {
        /// The object.
        new: Arc<T>,
        /// Whether the object existed before the handler started: it is part of the initial list, or of the objects that a
        /// handler receives when it is added (client-go's `isInInitialList`).
        initial: bool,
    },
    /// A watch event changed the object.
    Updated {
        /// The previous state.
        old: Arc<T>,
        /// The current state.
        new: Arc<T>,
    },
    /// A relist returned the object, with the same resource version or another one.
    Replaced {
        /// The previous state.
        old: Arc<T>,
        /// The current state.
        new: Arc<T>,
    },
    /// Periodic resync: nothing changed. See [`InformerOptions::resync`](super::InformerOptions::resync).
    Sync {
        /// The object.
        object: Arc<T>,
    },
    /// The object was deleted.
    Deleted {
        /// The last known state.
        last: Arc<T>,
        /// Whether the deletion event was missed and a relist no longer returned the object, so that `last` may be older than
        /// its final state (client-go's `DeletedFinalStateUnknown`).
        missed: bool,
    },
}

// --- Delta ---

impl<T> Delta<T> {
    /// The previous state, if there is one. For [`Delta::Sync`] it is the current state.
    pub fn old(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added { .. } => None,
            Delta::Updated { old, .. } | Delta::Replaced { old, .. } => Some(old),
            Delta::Sync { object } => Some(object),
            Delta::Deleted { last, .. } => Some(last),
        }
    }

    /// The current state; `None` if the object was deleted.
    #[expect(
        clippy::new_ret_no_self,
        reason = "the counterpart of `old`; it is not a constructor"
    )]
    pub fn new(&self) -> Option<&Arc<T>> {
        match self {
            Delta::Added { new, .. } | Delta::Updated { new, .. } | Delta::Replaced { new, .. } => Some(new),
            Delta::Sync { object } => Some(object),
            Delta::Deleted { .. } => None,
        }
    }

    /// The current state, or the last known state if the object was deleted.
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
