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
//! commit     to the store, and into the cache before anybody is told
//! ```
//!
//! Promises: a write is answered when it is durable and in the cache. A read without a resourceVersion sees every write that was
//! answered before, by whichever server.

mod admit;
mod answer;
mod ask;
mod body;
mod change;
mod commit;
mod conversion;
mod cost;
mod create;
mod delete;
mod list;
mod manage;
mod own;
mod patch;
mod resource;
mod step;
mod subresource;
mod table;
mod version;
mod watch;

use std::sync::Arc;

use k3_api::time::Time;
use k3_storage::Clock;

pub(crate) use self::{
    answer::warn,
    ask::{Ask, Cancellation, Notes},
    commit::{not_committed, unavailable},
    create::{random_bytes, random_number, random_uid},
    delete::options_body as delete_body,
    own::{own_change, own_object, own_user},
    resource::{Resource, selectable},
    version::{convert, others},
};
use crate::{
    admission::Admission, allocation::Allocation, authn::Authenticator, authz::Authorizer, cache::Caches,
    clock, custom::Converter, metrics::Metrics, outgoing::Nodes,
};

/// What is behind the verbs.
pub(crate) struct Registry {
    pub caches: Arc<Caches>,
    pub authorizer: Arc<Authorizer>,
    pub admission: Admission,
    pub allocation: Arc<Allocation>,
    pub clock: Arc<dyn Clock>,
    pub authenticator: Authenticator,
    /// Whether a PUT of an object may change its status too.
    pub unrestricted_update: bool,
    pub metrics: Arc<Metrics>,
    pub converter: Arc<Converter>,
    pub nodes: Arc<Nodes>,
}

// --- Registry ---

impl Registry {
    /// What the clock shows.
    pub(crate) fn now(&self) -> Time {
        clock::time(&*self.clock)
    }
}
