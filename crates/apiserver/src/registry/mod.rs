//! The registry: from a request for a resource to a response.
//!
//! ```text
//! request_context    a request for a resource, with everything that the verbs need
//! pending_write      a write on its way, as all of them share it
//! outcome            what became of a write
//! body               decodes the object in a request body
//! admission          admission of new objects, with retries
//! create             creation
//! update             updates: PUT, patch, apply
//! delete             deletion of one object or a collection, with grace period, finalizers and propagation policy
//! get, list, watch
//! subresource        subresources with logic of their own, and kinds that are not stored
//! rest_storage       what serves a resource or a subresource
//! response           objects, lists and tables in the negotiated form
//! storage_version    the version an object is stored in
//! admission_metrics  admission steps and their latency
//! cost               the estimated cost of a request
//! conversion         conversion between the storage version and the request version
//! server_objects     objects that the server itself writes
//! freshness          rejects requests while the caches may be outdated
//! commit             writes to the store and waits for the cache
//! ```
//!
//! Promises: a write is acknowledged when it is durable and in the cache. A read without a resourceVersion sees every write
//! acknowledged before, by any server.

mod admission;
mod admission_metrics;
mod body;
mod commit;
mod conversion;
mod cost;
mod create;
mod decryption;
mod delete;
mod freshness;
mod list;
mod managed_fields;
mod outcome;
mod patch;
mod pending_write;
mod request_context;
mod resource;
mod response;
mod rest_storage;
mod server_objects;
mod size;
mod storage_version;
mod subresource;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod update;
mod watch;

use std::sync::Arc;

use k3_api::{kinds::KindRef, time::Time};
use k3_task::Clock;

pub(crate) use self::{
    admission::ObjectAdmission,
    commit::{StoreWriter, not_committed, unavailable},
    cost::estimate,
    create::{random_bytes, random_number, random_uid},
    delete::options_body as delete_body,
    freshness::ensure_recent,
    request_context::{AuditAnnotations, Cancellation, RequestContext},
    resource::{Resource, selectable},
    response::warn,
    rest_storage::{Connecter, ResourceStorage, RestStorage},
    server_objects::{own_change, own_object, own_user},
    storage_version::{convert, others},
    subresource::{ComponentStatusStorage, ConnectStorage, ReviewStorage, TokenRequestStorage},
};
use crate::{
    allocation::ServiceAllocator,
    cache::{CacheWatcher, Snapshot, TooOldResourceVersion, WatchCaches, WatchFilter, WatchStart},
    custom::{CustomResourceConverter, DefinitionRegistry},
    metrics::Metrics,
};

/// The verbs of stored objects.
// upstream: staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go Store
pub(crate) struct Registry {
    caches: Arc<WatchCaches>,
    writer: StoreWriter,
    admission: Arc<ObjectAdmission>,
    allocation: Arc<ServiceAllocator>,
    converter: Arc<CustomResourceConverter>,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// Whether a PUT of an object may change its status too.
    unrestricted_update: bool,
}

// --- Registry ---

impl Registry {
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        writer: StoreWriter,
        admission: Arc<ObjectAdmission>,
        allocation: Arc<ServiceAllocator>,
        converter: Arc<CustomResourceConverter>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        Registry {
            caches,
            writer,
            admission,
            allocation,
            converter,
            metrics,
            clock,
            unrestricted_update: false,
        }
    }

    /// Lets a PUT of an object change its status too.
    pub(crate) fn allow_unrestricted_update(&mut self) {
        self.unrestricted_update = true;
    }

    /// What the clock shows.
    pub(crate) fn now(&self) -> Time {
        Time::from(self.clock.system_time())
    }

    /// The resource of a kind.
    pub(crate) fn resource(&self, kind: impl Into<KindRef>) -> Resource {
        Resource::of(kind, &self.caches)
    }

    /// The objects of a resource, as far as the caches know them.
    pub(crate) fn cached_objects(&self, resource: &Resource) -> Snapshot {
        resource.cache.snapshot(self.caches.applied())
    }

    /// Everything that is known of a resource, and every change of it from then on.
    pub(crate) fn watch_all(
        &self,
        resource: &Resource,
    ) -> Result<(CacheWatcher, Snapshot), TooOldResourceVersion> {
        let applied = self.caches.applied();
        resource
            .cache
            .watch(&WatchFilter::Everything, WatchStart::Now, applied)
    }

    /// The kinds that users define.
    pub(crate) fn definitions(&self) -> &DefinitionRegistry {
        self.caches.definitions()
    }
}
