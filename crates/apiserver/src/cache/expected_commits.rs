//! What a write knows of the object that it commits, kept until the commit arrives from the store.
//!
//! Promises: what the cache takes from here belongs to exactly the bytes that the store delivers, whichever server wrote them.
//! Nothing stays here longer than its write lasts.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use k3_api::strategy::SelectableField;
use k3_storage::Key;
use parking_lot::{Mutex, MutexGuard};

use super::field_values::FieldValues;

/// The commits of one resource that are on their way.
#[derive(Default)]
pub(super) struct ExpectedCommits(Mutex<HashMap<Key, ExpectedObject>>);

/// An object that a write commits.
pub(super) struct ExpectedObject {
    pub bytes: Bytes,
    /// The fields that were read. Others may have been declared meanwhile.
    pub selectable: Arc<[SelectableField]>,
    pub values: FieldValues,
}

/// A commit that is on its way. It is no longer expected when this is dropped.
pub(crate) struct ExpectedCommit<'c> {
    commits: &'c ExpectedCommits,
    key: Key,
    bytes: Bytes,
}

// --- ExpectedCommits ---

impl ExpectedCommits {
    /// Expects a commit. Of two writes of one key, one cannot be committed; the later one is expected.
    pub(super) fn add(&self, key: &Key, object: ExpectedObject) -> ExpectedCommit<'_> {
        let bytes = object.bytes.clone();
        self.lock().insert(key.clone(), object);
        ExpectedCommit {
            commits: self,
            key: key.clone(),
            bytes,
        }
    }

    /// Takes what is known of a commit: these bytes under this key.
    pub(super) fn take(&self, key: &Key, bytes: &Bytes) -> Option<ExpectedObject> {
        let mut expected = self.lock();
        if expected.get(key)?.bytes != bytes {
            return None;
        }
        expected.remove(key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, ExpectedObject>> {
        self.0.lock()
    }
}

// --- ExpectedCommit ---

impl Drop for ExpectedCommit<'_> {
    fn drop(&mut self) {
        self.commits.take(&self.key, &self.bytes);
    }
}
