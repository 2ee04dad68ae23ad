//! A revision that threads share.

use std::sync::atomic::{AtomicU64, Ordering};

use k3_storage::Revision;

/// A revision that threads share. What was written before a revision was stored is seen by those who load it.
#[derive(Default)]
pub(super) struct AtomicRevision(AtomicU64);

// --- AtomicRevision ---

impl AtomicRevision {
    pub(super) fn load(&self) -> Revision {
        Revision::new(self.0.load(Ordering::Acquire))
    }

    pub(super) fn store(&self, revision: Revision) {
        self.0.store(revision.get(), Ordering::Release);
    }

    /// Stores a revision unless a later one is there.
    pub(super) fn raise(&self, revision: Revision) {
        self.0.fetch_max(revision.get(), Ordering::AcqRel);
    }
}
