//! Identity of an endpoint, independent of its state.

use std::collections::BTreeMap;

use crate::objects::Endpoint;

/// What makes endpoints the same one: then it stays in its slice.
// upstream: staging/src/k8s.io/endpointslice/util/endpointset.go hashEndpoint, endpointHashObj
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointKey {
    name: Box<str>,
    namespace: Box<str>,
    hostname: Box<str>,
    addresses: Vec<Box<str>>,
}

/// Endpoints, each once.
pub(crate) type EndpointSet = BTreeMap<EndpointKey, Endpoint>;

// --- EndpointKey ---

impl EndpointKey {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let target = endpoint.target_ref.as_deref();
        let mut addresses = endpoint.addresses.clone();
        addresses.sort();
        EndpointKey {
            name: target.map(|target| target.name.clone()).unwrap_or_default(),
            namespace: target.map(|target| target.namespace.clone()).unwrap_or_default(),
            hostname: endpoint.hostname.clone().unwrap_or_default(),
            addresses,
        }
    }
}

/// Whether the same endpoint changed. Hints are compared elsewhere.
// upstream: staging/src/k8s.io/endpointslice/util/controller_utils.go EndpointsEqualBeyondHash
pub(crate) fn differs(old: &Endpoint, new: &Endpoint) -> bool {
    old.conditions != new.conditions
        || old.node_name != new.node_name
        || old.zone != new.zone
        || old.target_ref != new.target_ref
}
