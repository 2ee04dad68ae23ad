//! State shared by the parts of the controller.

use k3_workloads::Node;
use kubecontroller::informer::Informer;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::{sync::Notify, time::Instant};

use super::{health::NodeHealthMap, taints::NoExecuteChange, zones::Zones};
use crate::objects::Projection;

/// The lease that a kubelet renews.
pub(super) type Lease = Projection<LeaseSpec>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseSpec {
    /// As written.
    pub(super) renew_time: Option<Box<str>>,
}

#[derive(Default)]
pub(super) struct SharedState {
    state: Mutex<NodeLifecycleState>,
    /// Notified when a node waits for its eviction.
    pub(super) eviction_waiting: Notify,
}

/// In-memory state; all of it can be rebuilt from the API.
#[derive(Default)]
pub(super) struct NodeLifecycleState {
    pub(super) health: NodeHealthMap,
    pub(super) zones: Zones,
}

/// The state of a node.
pub(super) struct NodeState {
    pub(super) is_new: bool,
    pub(super) is_silent: bool,
    pub(super) eviction: NoExecuteChange,
}

// --- SharedState ---

impl SharedState {
    pub(super) fn lock(&self) -> MutexGuard<'_, NodeLifecycleState> {
        self.state.lock()
    }

    /// Updates the state with a node. If the node has to be tainted, it waits for the zone's rate limit.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go processTaintBaseEviction, markNodeForTainting, markNodeAsReachable
    pub(super) fn observe_node(&self, node: &Node, lease: Option<&str>, now: Instant) -> NodeState {
        let name = &*node.metadata.name;
        let mut state = self.lock();
        let is_new = state.health.observe(node, lease, now);
        state.zones.observe(node, now);
        let mut eviction = NoExecuteChange::of(node, state.zones.disruption_mode());
        match eviction {
            NoExecuteChange::AddWhenAllowed(key) if state.zones.request_eviction(name, now) => {
                eviction = NoExecuteChange::KeepOne(key);
            }
            NoExecuteChange::AddWhenAllowed(_) => self.eviction_waiting.notify_one(),
            NoExecuteChange::Keep | NoExecuteChange::Remove | NoExecuteChange::KeepOne(_) => {
                state.zones.cancel_eviction(name);
            }
        }
        NodeState {
            is_new,
            is_silent: state.health.is_expired(name, now),
            eviction,
        }
    }
}

/// renewTime of a node's lease in the informer's cache.
pub(super) fn renew_time(leases: &Informer<Lease>, node: &str) -> Option<Box<str>> {
    let key = kubecontroller::Key::new(super::LEASE_NAMESPACE, node);
    leases.store().get(&key)?.spec.renew_time.clone()
}
