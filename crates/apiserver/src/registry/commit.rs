//! To the store, and into the cache before anybody is told.

use std::time::Duration;

use k3_api::{status::Status, time::Time};
use k3_storage::{CommitError, Entry, StoreError, Write};
use serde_json::Value;

use super::Registry;
use crate::authn::EphemeralToken;

/// How long a read waits for the cache to have what is stored. Longer than a store takes to come back from a short failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a write did not happen.
pub(super) enum NotCommitted {
    /// Something else is there than was expected; here it is.
    Conflict(Option<Entry>),
    /// The store did not take it.
    Failed(Status),
}

// --- Registry ---

impl Registry {
    /// Writes, and waits until the cache has what was written. Gives its revision.
    pub(super) async fn commit(&self, write: Write) -> Result<u64, NotCommitted> {
        match self.caches.store().commit(write).await {
            Ok(revision) => {
                self.caches.reach(revision.get()).await;
                Ok(revision.get())
            }
            Err(CommitError::Conflict(entry)) => Err(NotCommitted::Conflict(entry)),
            Err(error) => Err(NotCommitted::Failed(not_committed(error))),
        }
    }

    /// Waits until the cache has everything that is stored now.
    pub(super) async fn fresh(&self) -> Result<u64, Status> {
        match tokio::time::timeout(PATIENCE, self.caches.fresh()).await {
            Ok(fresh) => fresh.map_err(|error| unavailable(&error)),
            Err(_) => Err(Status::timeout(
                "the store is ahead and its events do not come",
                1,
            )),
        }
    }
}

/// The answer when a write did not happen, or may not have.
pub(crate) fn not_committed(error: CommitError) -> Status {
    match error {
        CommitError::TooLarge { bytes, .. } => too_large(bytes),
        CommitError::Uncertain(error) => {
            Status::timeout(format!("{error}; it is not known whether the write happened"), 1)
        }
        CommitError::Store(error) => unavailable(&error),
        other => Status::internal_error(other),
    }
}

/// The answer when the store fails.
pub(crate) fn unavailable(error: &StoreError) -> Status {
    match error {
        StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Closed => {
            Status::service_unavailable(error.to_string())
        }
        other => Status::internal_error(other),
    }
}

fn too_large(bytes: usize) -> Status {
    Status::request_entity_too_large(format!(
        "the object has {bytes} bytes, more than the {} that can be stored; make it smaller or split it",
        k3_storage::MAX_VALUE_BYTES
    ))
}

/// How long an object lives: events are forgotten after an hour, tokens for a while when that is over.
pub(super) fn time_to_live(kind: &str, object: &Value, now: Time) -> Option<Duration> {
    match kind {
        "Event" => Some(Duration::from_hours(1)),
        "Secret" => EphemeralToken::life(object, now),
        _ => None,
    }
}
