//! Requests for objects that cannot be decrypted.
//!
//! Promises: they are never sent to a client; a request for one, or for a list with one, is an error with its name and the
//! reason. A key that was added since is used at once: such objects are read from the store again on every request.

use std::sync::Arc;

use k3_api::status::Status;

use super::{Resource, commit::unavailable};
use crate::cache::{CachedObject, Snapshot, WatchCaches};

/// The object, if it is or can be decrypted.
pub(super) async fn readable(
    caches: &WatchCaches,
    resource: &Resource,
    object: Arc<CachedObject>,
) -> Result<Arc<CachedObject>, Status> {
    let Some(reason) = object.undecrypted() else {
        return Ok(object);
    };
    match caches.store().get(&object.key).await {
        Ok(Some(entry)) if entry.revision == object.revision => {
            let again = CachedObject::new(entry.key, entry.value, object.revision);
            match again.undecrypted() {
                None => {
                    let again = Arc::new(again);
                    caches.put_decrypted(&resource.cache, &again);
                    Ok(again)
                }
                Some(reason) => Err(not_decrypted(resource, &object, &reason)),
            }
        }
        Ok(_) => Err(not_decrypted(resource, &object, &reason)),
        Err(k3_storage::ReadError::Store(error)) => Err(unavailable(&error)),
        Err(error) => Err(Status::internal_error(error)),
    }
}

/// The objects of a snapshot, if all under a prefix are or can be decrypted.
pub(super) async fn readable_snapshot(
    caches: &WatchCaches,
    resource: &Resource,
    mut snapshot: Snapshot,
    prefix: &str,
) -> Result<Snapshot, Status> {
    let encrypted: Vec<_> = snapshot
        .under(prefix, None)
        .filter(|object| object.undecrypted().is_some())
        .cloned()
        .collect();
    for object in encrypted {
        let object = readable(caches, resource, object).await?;
        snapshot.objects.insert(object.key.clone(), object);
    }
    Ok(snapshot)
}

/// The answer to a request for an object that cannot be decrypted.
// upstream: staging/src/k8s.io/apiserver/pkg/storage/errors.go NewInternalError
pub(super) fn not_decrypted(resource: &Resource, object: &CachedObject, reason: &str) -> Status {
    let namespace = match object.namespace() {
        "" => String::new(),
        namespace => format!(" in namespace {namespace:?}"),
    };
    Status::internal_error(format!(
        "unable to decrypt {} {:?}{namespace}: {reason}",
        resource.kind.plural,
        object.name()
    ))
}
