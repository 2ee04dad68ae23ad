//! Commits writes to the store, and waits for the watch cache before the response.
//!
//! Promise: nothing else commits. All other code has a `ReadOnlyStore`, or is given a [`StoreWriter`].

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use k3_api::{kinds::Kind, status::Status, strategy::TreeMut, time::Time};
use k3_storage::{CommitError, Entry, Key, Operation, Precondition, Revision, Store, StoreError, Write};
use serde_json::Value;
use tokio::time::Instant;

use super::{Registry, Resource, outcome::Outcome, storage_version};
use crate::{allocation::Reservation, authn::EphemeralToken, cache::WatchCaches};

/// The write half of the store. The read half is [`ReadOnlyStore`](crate::read_only_store::ReadOnlyStore).
#[derive(Clone)]
pub(crate) struct StoreWriter(Arc<dyn Store>);

/// An object that is ready to be stored.
pub(super) struct ReadyObject {
    pub key: Key,
    /// The revision that it replaces; `None` if it is new.
    pub replaces: Option<Revision>,
    /// As it is stored.
    pub bytes: Bytes,
    /// In the version it was validated in.
    pub object: Value,
    pub time_to_live: Option<Duration>,
}

/// Why a write did not happen.
pub(super) enum WriteError {
    /// A concurrent write won; this is the current state.
    Conflict(Option<Entry>),
    /// The write was rejected, or the store did not take it.
    Failed(Status),
}

// --- StoreWriter ---

impl StoreWriter {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        StoreWriter(store)
    }

    /// Commits a write, and returns its revision once it is durable. The caches may not have it yet.
    pub(crate) fn commit(&self, write: Write) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.0.commit(write)
    }
}

// --- Registry ---

impl Registry {
    /// Stores an object. It keeps what was reserved for it; its tree is kept for the next write of the object.
    pub(super) async fn store_object(
        &self,
        ready: ReadyObject,
        resource: &Resource,
        reservation: Reservation<'_>,
    ) -> Result<Outcome, WriteError> {
        let revision = self.commit_object(&ready, resource, reservation).await?;
        let bytes = ready.bytes.clone();
        Ok(Outcome::Stored {
            bytes,
            revision,
            object: keep_tree(&self.caches, ready, revision, resource),
        })
    }

    /// Stores an object of which nothing but the revision is needed any more. It keeps what was reserved for it.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go Create, GuaranteedUpdate
    pub(super) async fn commit_object(
        &self,
        ready: &ReadyObject,
        resource: &Resource,
        reservation: Reservation<'_>,
    ) -> Result<Revision, WriteError> {
        let key = ready.key.clone();
        let bytes = ready.bytes.clone();
        let mut write = match ready.replaces {
            None => Write::create(key, bytes),
            Some(revision) => Write::update(key, revision, bytes),
        };
        if let Some(time) = ready.time_to_live {
            write = write.expiring(time);
        }
        let validation_kind = storage_version::validation_kind(&resource.kind);
        let expected = resource.expect(&ready.key, &ready.bytes, &ready.object, validation_kind);
        let committed = self.commit(write).await;
        drop(expected);
        match committed {
            Ok(revision) => {
                reservation.keep().await;
                Ok(revision)
            }
            Err(error) => Err(error.release(reservation).await),
        }
    }

    /// Removes an object at this revision, and frees what it had. Returns the revision of the removal.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/store.go conditionalDelete
    pub(super) async fn remove_object(
        &self,
        key: Key,
        revision: Revision,
        object: &Value,
        resource: &Resource,
        reservation: Reservation<'_>,
    ) -> Result<Revision, WriteError> {
        match self.commit(Write::delete(key, revision)).await {
            Ok(revision) => {
                reservation.give_back().await;
                self.allocation.release(object, resource).await;
                Ok(revision)
            }
            Err(error) => Err(error.release(reservation).await),
        }
    }

    /// Commits a write, waits until the cache has it, and returns its revision.
    async fn commit(&self, write: Write) -> Result<Revision, WriteError> {
        let operation = operation(&write);
        let key = write.key.clone();
        let began = Instant::now();
        let committed = self.writer.commit(write).await;
        self.metrics.stored(operation, &key, began.elapsed(), &committed);
        match committed {
            Ok(revision) => {
                self.caches.wait_until_applied(revision).await;
                Ok(revision)
            }
            Err(CommitError::Conflict(entry)) => Err(WriteError::Conflict(entry)),
            Err(error) => Err(WriteError::Failed(not_committed(error))),
        }
    }
}

// --- WriteError ---

impl WriteError {
    /// Releases what was reserved for a write that did not happen. After other errors that is not known, and repair decides.
    async fn release(self, reservation: Reservation<'_>) -> Self {
        if matches!(self, WriteError::Conflict(_)) {
            reservation.give_back().await;
        }
        self
    }
}

impl From<Status> for WriteError {
    fn from(status: Status) -> Self {
        WriteError::Failed(status)
    }
}

/// Keeps the tree that a commit has written, for the next write of the object. Trees of custom objects are not kept: what is shown
/// of them depends on their definition.
fn keep_tree(
    caches: &WatchCaches,
    ready: ReadyObject,
    revision: Revision,
    resource: &Resource,
) -> Arc<Value> {
    let mut tree = ready.object;
    let validation_kind = storage_version::validation_kind(&resource.kind);
    if resource.custom.is_some() || !storage_version::is_same(validation_kind, &resource.stored) {
        return Arc::new(tree);
    }
    tree.ensure_object("metadata")
        .set("resourceVersion", revision.to_string());
    let tree = Arc::new(tree);
    caches.trees().put(&ready.key, revision, &ready.bytes, &tree);
    tree
}

/// The operation label of a write.
fn operation(write: &Write) -> &'static str {
    match (&write.operation, write.precondition) {
        (Operation::Delete, _) => "delete",
        (Operation::Put { .. }, Precondition::Absent) => "create",
        (Operation::Put { .. }, Precondition::At(_)) => "update",
    }
}

/// The error of a write that failed, or whose outcome is unknown.
pub(crate) fn not_committed(error: CommitError) -> Status {
    match error {
        CommitError::TooLarge { .. } => too_large(),
        CommitError::Uncertain(error) => {
            Status::timeout(format!("{error}; it is not known whether the write happened"), 1)
        }
        CommitError::Store(error) => unavailable(&error),
        other => Status::internal_error(other),
    }
}

/// The error when the store fails.
pub(crate) fn unavailable(error: &StoreError) -> Status {
    match error {
        StoreError::Unavailable { .. } | StoreError::Full { .. } | StoreError::Closed => {
            Status::service_unavailable(error.to_string())
        }
        other => Status::internal_error(other),
    }
}

/// The answer to an object that no store takes, in the words of the one that upstream has.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go isTooLargeError
pub(super) fn too_large() -> Status {
    let mut status = Status::request_entity_too_large("");
    "etcdserver: request is too large".clone_into(&mut status.message);
    status
}

/// The time to live of an object: one hour for events, some time beyond expiry for bootstrap and ephemeral tokens.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go calculateTTL
pub(super) fn time_to_live(kind: &Kind, object: &Value, now: Time) -> Option<Duration> {
    match &*kind.kind {
        // A custom kind may be called the same.
        _ if kind.strategy.is_some() => None,
        "Event" => Some(Duration::from_hours(1)),
        "Secret" => EphemeralToken::life(object, now),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use k3_api::strategy::Tree;
    use k3_storage::memory::MemoryStore;
    use serde_json::json;

    use super::*;
    use crate::{
        cache::CachedObject,
        registry::{own_user, testing::TestRegistry},
    };

    #[tokio::test]
    async fn kept_tree_is_the_stored_object() {
        let server = TestRegistry::start(MemoryStore::new(), "10.0.0.0/24").await;
        let namespaces = server.resource("", "v1", "Namespace");
        server.put(&namespaces, &json!({"metadata": {"name": "n"}})).await;
        let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
        let regarding = json!({"kind": "Pod", "namespace": "n", "name": "a"});
        let event = json!({
            "regarding": regarding, "eventTime": "2026-01-01T00:00:00.000001Z", "type": "Normal", "reason": "Test",
            "action": "Test", "reportingController": "example.com/test", "reportingInstance": "test",
        });
        for (group, version, kind, mut object, is_kept) in [
            ("", "v1", "ConfigMap", json!({"data": {"a": "1"}}), true),
            // It is validated in the version that is stored.
            (
                "autoscaling",
                "v1",
                "HorizontalPodAutoscaler",
                json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 7}}),
                true,
            ),
            // It is validated in the version of the request.
            ("events.k8s.io", "v1", "Event", event, false),
        ] {
            let resource = server.resource(group, version, kind);
            object["metadata"] = json!({"name": "a", "namespace": "n"});
            let created = server
                .registry
                .create_own(resource.kind.clone(), object, own_user(), "test");
            created.await.unwrap();
            let key = resource.key("n", "a").unwrap();
            let kept = |current: &CachedObject| server.caches.trees().get(current);
            let created = resource.cache.get(&key).unwrap();
            let tree = is_kept.then(|| created.tree());
            assert_eq!(kept(&created).as_deref(), tree.as_ref(), "{kind}");
            let mut changed = storage_version::convert(created.tree(), &resource.stored, &resource.kind);
            changed["metadata"]["labels"] = json!({"changed": "true"});
            let updated = server.registry.update_own(&resource, changed, "test", None);
            updated.await.unwrap();
            let updated = resource.cache.get(&key).unwrap();
            assert_eq!(
                updated.tree().at_path("metadata.labels.changed"),
                "true",
                "{kind}"
            );
            let tree = is_kept.then(|| updated.tree());
            assert_eq!(kept(&updated).as_deref(), tree.as_ref(), "{kind}");
            assert!(kept(&created).is_none(), "{kind}");
        }
    }
}
