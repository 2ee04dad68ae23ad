//! What a reconciler remembers of objects between passes.

use std::{collections::HashMap, sync::Arc};

use kube::ResourceExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    pass::{NextPass, PassResult},
    status::Phased,
};
use crate::Key;

/// Remembers objects between passes. Objects in a terminal phase whose written version has reached the store are forgotten.
pub(super) struct PassCache<R> {
    memos: Mutex<HashMap<Key, CachedPass<R>>>,
}

/// What is remembered of one object.
pub(super) struct CachedPass<R> {
    uid: Option<String>,
    /// The resource version after the last pass.
    version: Option<String>,
    /// When the next pass is due, unless another client changes the object.
    due: Option<Instant>,
    /// The object after the last pass, until the store has caught up.
    ahead: Option<Arc<R>>,
    /// A pass whose result could not be written.
    pub(super) unsaved: Option<Arc<Unsaved<R>>>,
}

/// A pass whose result could not be written.
pub(super) struct Unsaved<R> {
    /// The object before the pass.
    pub(super) base: Arc<R>,
    pub(super) pass: PassResult<R>,
}

// --- PassCache ---

impl<R: Phased> PassCache<R> {
    /// What is remembered of an object with the same UID.
    pub(super) fn recall(&self, key: &Key, object: &R) -> CachedPass<R> {
        self.lock()
            .get(key)
            .filter(|memo| memo.uid == object.uid())
            .cloned()
            .unwrap_or_default()
    }

    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Remembers the result of a pass. `stored` is the object in the store; none if the reconciler reads from the server,
    /// whose objects are always current.
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
        let uid = object.uid();
        let version = object.resource_version();
        let behind = stored.is_some_and(|stored| stored.resource_version() != version);
        let memo = CachedPass {
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, CachedPass<R>>> {
        self.memos.lock()
    }
}

impl<R> Default for PassCache<R> {
    fn default() -> Self {
        PassCache {
            memos: Mutex::default(),
        }
    }
}

// --- CachedPass ---

impl<R: Phased> CachedPass<R> {
    /// The newer of the read and the written object. Resource versions that are not numbers cannot be compared; then the
    /// object that was read wins.
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

    /// The time until the next pass, if it is not due yet and no other client has changed the object.
    pub(super) fn not_yet(&self, object: &R) -> Option<NextPass> {
        let due = self
            .due
            .filter(|_| self.version.is_some() && self.version == object.resource_version())?;
        let wait = due.checked_duration_since(Instant::now())?;
        (!wait.is_zero()).then_some(NextPass::After(wait))
    }
}

impl<R> Default for CachedPass<R> {
    fn default() -> Self {
        CachedPass {
            uid: None,
            version: None,
            due: None,
            ahead: None,
            unsaved: None,
        }
    }
}

impl<R> Clone for CachedPass<R> {
    fn clone(&self) -> Self {
        CachedPass {
            uid: self.uid.clone(),
            version: self.version.clone(),
            due: self.due,
            ahead: self.ahead.clone(),
            unsaved: self.unsaved.clone(),
        }
    }
}
