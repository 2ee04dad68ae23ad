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
mod update;
mod watch;

use std::sync::Arc;

use k3_api::time::Time;
use k3_storage::Clock;

pub(crate) use self::{
    commit::{StoreWriter, not_committed, unavailable},
    create::{random_bytes, random_number, random_uid},
    delete::options_body as delete_body,
    freshness::ensure_recent,
    request_context::{AuditAnnotations, Cancellation, RequestContext},
    resource::{Resource, selectable},
    response::warn,
    rest_storage::{Connecter, ResourceStorage, RestStorage},
    server_objects::{own_change, own_object, own_user},
    storage_version::{convert, others},
};
use crate::{
    admission::AdmissionChain, allocation::ServiceAllocator, authn::Authenticator, authz::Authorizer,
    cache::WatchCaches, clock, custom::CustomResourceConverter, metrics::Metrics,
    outgoing::NodeConnectionInfoGetter,
};

/// What is behind the verbs.
pub(crate) struct Registry {
    pub caches: Arc<WatchCaches>,
    pub writer: StoreWriter,
    pub authorizer: Arc<Authorizer>,
    pub admission: AdmissionChain,
    pub allocation: Arc<ServiceAllocator>,
    pub clock: Arc<dyn Clock>,
    pub authenticator: Arc<Authenticator>,
    /// Whether a PUT of an object may change its status too.
    pub unrestricted_update: bool,
    pub metrics: Arc<Metrics>,
    pub converter: Arc<CustomResourceConverter>,
    pub nodes: Arc<NodeConnectionInfoGetter>,
}

// --- Registry ---

impl Registry {
    /// What the clock shows.
    pub(crate) fn now(&self) -> Time {
        clock::time(&*self.clock)
    }
}
