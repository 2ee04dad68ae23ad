//! Refuses requests while the watch caches may be stale: no request is decided by a state older than some seconds.
//!
//! A server that was paused, or cut off from a store that others use too, does not know which roles, policies, webhooks and
//! definitions changed meanwhile. It asks the store before it decides, and refuses while it cannot know.

use std::time::Duration;

use k3_api::status::Status;

use super::commit::{loads_again, too_large_version, unavailable};
use crate::cache::{PROOF_TIME, StalenessError, WatchCaches};

/// How long a request waits: for the answer of a store that is slow, and before that for one to a question that was asked before
/// the request arrived.
const PATIENCE: Duration = PROOF_TIME.saturating_mul(2);

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
