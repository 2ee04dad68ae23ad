//! Versions of the watch caches: counters of their states. Unlike revisions, they also differ when the content was replaced, and
//! they belong to this process.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which state of the objects of one resource. Equal versions of a cache mean equal objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheVersion(u64);

/// Which state of all caches together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachesVersion(u64);

/// A version of all caches that threads share. What was written before it was stored is seen by those who load it.
#[derive(Default)]
pub(crate) struct AtomicCachesVersion(AtomicU64);

// --- CacheVersion ---

impl CacheVersion {
    /// Of what is no state of a cache: a state that was read from the history of the store.
    pub(crate) const NONE: Self = CacheVersion(0);
    /// Of a new cache.
    pub(super) const FIRST: Self = CacheVersion(1);

    /// Counts a change.
    pub(super) fn advance(&mut self) {
        self.0 += 1;
    }
}

// --- AtomicCachesVersion ---

impl AtomicCachesVersion {
    pub(crate) fn load(&self) -> CachesVersion {
        CachesVersion(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, version: CachesVersion) {
        self.0.store(version.0, Ordering::Release);
    }

    /// Counts a change.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
