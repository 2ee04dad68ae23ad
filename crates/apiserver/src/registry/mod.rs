//! The verbs: from a request for a resource to an answer.
//!
//! ```text
//! ask        a request for a resource, with all that the verbs need of it
//! body       the object a request brings, decoded and checked against what is expected
//! admit      a new object, which may need what is only just coming
//! create     a new object
//! change     an object that is changed: by a PUT, a patch, an apply
//! delete     one object, or many, with grace, finalizers and dependents
//! get, list, watch
//! answer     an object, a list, a table, in the form that was asked for
//! version    the version an object is stored in
//! step       a step of admission, whose time is counted
//! cost       what a request costs, before it is carried out
//! conversion from there to the version of a request, and back
//! own        objects of the server's own making
//! recent     no request is decided by an old state
//! commit     to the store, and into the cache before anybody is told
//! ```
//!
//! Promises: a write is answered when it is durable and in the cache. A read without a resourceVersion sees every write that was
//! answered before, by whichever server.

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
mod patch;
mod request_context;
mod resource;
mod response;
mod server_objects;
mod storage_version;
mod subresource;
mod table;
mod update;
mod watch;

use std::sync::Arc;

use k3_api::time::Time;
use k3_storage::Clock;

pub(crate) use self::{
    commit::{not_committed, unavailable},
    create::{random_bytes, random_number, random_uid},
    delete::options_body as delete_body,
    request_context::{AuditAnnotations, Cancellation, RequestContext},
    resource::{Resource, selectable},
    response::warn,
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
    pub authorizer: Arc<Authorizer>,
    pub admission: AdmissionChain,
    pub allocation: Arc<ServiceAllocator>,
    pub clock: Arc<dyn Clock>,
    pub authenticator: Authenticator,
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
