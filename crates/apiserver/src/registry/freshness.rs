//! Waits for the watch caches, and refuses requests while they may be stale: no request is decided by a state older than some
//! seconds.
//!
//! A server that was paused, or cut off from a store that others use too, does not know which roles, policies, webhooks and
//! definitions changed meanwhile. It asks the store before it decides, and refuses while it cannot know.

use std::time::Duration;

use k3_api::status::{Status, StatusCause};

use k3_storage::Revision;

use super::commit::unavailable;
use crate::cache::{PROOF_TIME, StalenessError, WatchCaches};

/// How long a request waits: for the answer of a store that is slow, and before that for one to a question that was asked before
/// the request arrived.
const PATIENCE: Duration = PROOF_TIME.saturating_mul(2);

/// How long a read waits for the cache to catch up. Longer than a store needs to recover from a short failure.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How long the store may take to return its revision when its events are late.
const ONE_ANSWER: Duration = Duration::from_secs(1);

/// What shows the state of the server itself, and must do so when the store is lost.
const ALWAYS: [&str; 5] = ["healthz", "livez", "metrics", "readyz", "version"];

/// Waits until the caches are known to be recent, for a request of a path.
///
/// # Errors
/// They do not get there in time.
pub(crate) async fn ensure_recent(caches: &WatchCaches, path: &str) -> Result<(), Status> {
    if caches.is_recent() || is_always_answered(path) {
        return Ok(());
    }
    let mut rejection = match tokio::time::timeout(PATIENCE, caches.ensure_recent()).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(StalenessError::Failed(error))) => unavailable(&error),
        Ok(Err(StalenessError::Late)) | Err(_) => describe_late_proof(caches),
    };
    rejection.details.get_or_insert_default().retry_after_seconds = 1;
    Err(rejection)
}

/// Waits until the caches have everything that is stored now. Returns its revision.
pub(super) async fn read_index(caches: &WatchCaches) -> Result<Revision, Status> {
    match tokio::time::timeout(READ_PATIENCE, caches.read_index()).await {
        Ok(fresh) => fresh.map_err(|error| unavailable(&error)),
        Err(_) => Err(describe_lag(caches).await),
    }
}

/// The error when the caches did not receive everything that is stored in time.
pub(super) async fn describe_lag(caches: &WatchCaches) -> Status {
    if !caches.follows() {
        return loads_again();
    }
    match tokio::time::timeout(ONE_ANSWER, caches.current_revision()).await {
        Ok(Ok(current)) => too_large_version(current, caches.applied()),
        Ok(Err(error)) => unavailable(&error),
        Err(_) => Status::timeout("the store does not answer", 1),
    }
}

fn is_always_answered(path: &str) -> bool {
    let first = path.split('/').nth(1);
    first.is_some_and(|first| ALWAYS.contains(&first))
}

/// The answer when the caches are not known to be recent. The store is not asked once more: it has just failed to answer.
fn describe_late_proof(caches: &WatchCaches) -> Status {
    if !caches.follows() {
        return loads_again();
    }
    let applied = caches.applied();
    let newest = caches.newest_known();
    if newest > applied {
        return too_large_version(newest, applied);
    }
    let why = format!(
        "the store did not confirm in time that the watch cache, at revision {applied}, is up to date; try again"
    );
    Status::timeout(why, 1)
}

/// The error while the watch cache is being reloaded.
pub(super) fn loads_again() -> Status {
    let mut status = Status::service_unavailable(
        "the server missed events of the store and loads its watch cache again; try again",
    );
    status.details.get_or_insert_default().retry_after_seconds = 1;
    status
}

/// The error for a resource version that the cache did not reach in time (504, `ResourceVersionTooLarge`).
// upstream: staging/src/k8s.io/apiserver/pkg/storage/errors.go NewTooLargeResourceVersionError
pub(super) fn too_large_version(revision: Revision, current: Revision) -> Status {
    let why = format!("Too large resource version: {revision}, current: {current}");
    let mut status = Status::timeout(why, 1);
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    });
    status
}
