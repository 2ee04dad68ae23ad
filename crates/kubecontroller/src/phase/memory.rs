//! What a reconciler remembers of objects between passes.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kube::ResourceExt;
use tokio::time::Instant;

use super::{
    pass::{NextPass, Pass},
    status::Phased,
};
use crate::Key;

/// What is remembered of objects. Of one that has ended, and is in the store as it was written, nothing is.
pub(super) struct Memory<R> {
    memos: Mutex<HashMap<Key, Memo<R>>>,
}

/// What is remembered of an object.
pub(super) struct Memo<R> {
    uid: Option<String>,
    /// The version after the last pass.
    version: Option<String>,
    /// When the next pass is due, if nobody else changes the object.
    due: Option<Instant>,
    /// The object after the last pass, while the store may not have it.
    ahead: Option<Arc<R>>,
    /// A pass whose result could not be written.
    pub(super) unsaved: Option<Arc<Unsaved<R>>>,
}

/// A pass whose result could not be written.
pub(super) struct Unsaved<R> {
    /// What the pass began with.
    pub(super) base: Arc<R>,
    pub(super) pass: Pass<R>,
}

// --- Memory ---

impl<R: Phased> Memory<R> {
    /// What is remembered of an object, if it still is the same.
    pub(super) fn recall(&self, key: &Key, object: &R) -> Memo<R> {
        self.lock()
            .get(key)
            .filter(|memo| memo.uid == object.uid())
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Remembers how a pass ended. `stored` is the object where the next pass will look for it; if there is no such place,
    /// what is seen there will always be new.
    pub(super) fn remember(
        &self,
        key: &Key,
        object: Arc<R>,
        then: NextPass,
        unsaved: Option<Arc<Unsaved<R>>>,
        stored: Option<&Arc<R>>,
    ) {
        let due = match then {
            NextPass::Stop => None,
            NextPass::After(wait) => Instant::now().checked_add(wait),
        };
        let (uid, version) = (object.uid(), object.resource_version());
        let behind = stored.is_some_and(|stored| stored.resource_version() != version);
        let memo = Memo {
            uid,
            version,
            due,
            ahead: behind.then_some(object),
            unsaved,
        };
        if memo.due.is_none() && memo.ahead.is_none() && memo.unsaved.is_none() {
            self.forget(key);
        } else {
            self.lock().insert(key.clone(), memo);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Memo<R>>> {
        self.memos.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Default for Memory<R> {
    fn default() -> Self {
        Memory {
            memos: Mutex::default(),
        }
    }
}

// --- Memo ---

impl<R: Phased> Memo<R> {
    /// The newer of what was seen and what was written. Versions that are no numbers cannot be compared: then what was seen
    /// counts.
    pub(super) fn newest(&self, seen: Arc<R>) -> Arc<R> {
        let version = |object: &R| {
            object
                .resource_version()
                .and_then(|version| version.parse::<u64>().ok())
        };
        match &self.ahead {
            Some(ahead) if version(&seen).is_some() && version(ahead) > version(&seen) => Arc::clone(ahead),
            _ => seen,
        }
    }

    /// When the next pass is due, if that is later and nobody has changed the object since the last.
    pub(super) fn not_yet(&self, object: &R) -> Option<NextPass> {
        let due = self
            .due
            .filter(|_| self.version.is_some() && self.version == object.resource_version())?;
        let wait = due.checked_duration_since(Instant::now())?;
        (!wait.is_zero()).then_some(NextPass::After(wait))
    }
}

impl<R> Default for Memo<R> {
    fn default() -> Self {
        Memo {
            uid: None,
            version: None,
            due: None,
            ahead: None,
            unsaved: None,
        }
    }
}

impl<R> Clone for Memo<R> {
    fn clone(&self) -> Self {
        Memo {
            uid: self.uid.clone(),
            version: self.version.clone(),
            due: self.due,
            ahead: self.ahead.clone(),
            unsaved: self.unsaved.clone(),
        }
    }
}
