//! Addresses and ports reserved for a Service that is about to be stored: committed or reverted after the write.

use k3_storage::{CommitError, Key, Revision, Write};

use super::{
    ServiceAllocator,
    record::{AllocatedItem, AllocationRecords, RecordOwner},
};

/// Addresses and ports reserved for an object that is about to be stored, and those that it releases then.
///
/// If it is neither kept nor released, because it is unknown whether the object was stored, a later repair removes the orphaned
/// records.
#[derive(Default)]
#[must_use = "what was reserved is to be kept or given back"]
pub(crate) struct Reservation<'a> {
    /// Where it comes from; nowhere, if the object is given nothing.
    pub(super) from: Option<&'a ServiceAllocator>,
    /// Records that were made for it.
    pub(super) taken: Vec<(Key, Revision)>,
    /// What it gives up.
    pub(super) given_up: Vec<AllocatedItem>,
    pub(super) owner: Option<RecordOwner>,
}

// --- Reservation ---

impl Reservation<'_> {
    /// The object was stored: what it was given is its own, and what it gave up is free.
    // upstream: pkg/registry/core/service/storage/transaction.go Commit
    pub(crate) async fn keep(self) {
        if let (Some(from), Some(owner)) = (self.from, &self.owner) {
            from.free(&self.given_up, owner).await;
        }
    }

    /// The object was not stored, for sure.
    // upstream: pkg/registry/core/service/storage/transaction.go Revert
    pub(crate) async fn give_back(self) {
        if let Some(from) = self.from {
            from.remove(self.taken).await;
        }
    }
}

// --- ServiceAllocator ---

impl ServiceAllocator {
    /// Frees what a service had.
    pub(super) async fn free(&self, items: &[AllocatedItem], owner: &RecordOwner) {
        let records = AllocationRecords::of(&self.caches);
        let found = items.iter().filter_map(|item| records.find(*item));
        let own = found
            .filter(|record| RecordOwner::in_record(record) == *owner)
            .map(|record| (record.key.clone(), record.revision));
        let own: Vec<_> = own.collect();
        self.remove(own).await;
    }

    /// Deletes records at the revision at which they were seen. Repair removes those that cannot be deleted now.
    pub(super) async fn remove(&self, records: Vec<(Key, Revision)>) {
        let mut removed = None;
        for (key, revision) in records {
            match self.writer.commit(Write::delete(key.clone(), revision)).await {
                Ok(revision) => removed = Some(revision),
                // Deleted concurrently.
                Err(CommitError::Conflict(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, %key, "failed to release a service allocation; the next repair will release it");
                }
            }
        }
        // A client that is notified of the change must be able to allocate what was released.
        if let Some(revision) = removed {
            self.caches.wait_until_applied(revision).await;
        }
    }
}
