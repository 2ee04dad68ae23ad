//! What the parts of the controller share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kubecontroller::informer::Informer;
use serde::Deserialize;
use tokio::{sync::Notify, time::Instant};

use super::{health::Lives, taints::Eviction, zones::Zones};
use crate::objects::{Node, Projection};

/// The lease that a node renews to show that it lives.
pub(super) type Lease = Projection<LeaseSpec>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseSpec {
    /// As it was written.
    pub(super) renew_time: Option<Box<str>>,
}

/// What the parts of the controller share.
#[derive(Default)]
pub(super) struct SharedList {
    state: Mutex<State>,
    /// Somebody waits for its turn.
    pub(super) wake: Notify,
}

/// What is remembered of nodes. All of it can be found out again.
#[derive(Default)]
pub(super) struct State {
    pub(super) lives: Lives,
    pub(super) zones: Zones,
}

/// How a node is at this moment.
pub(super) struct Look {
    pub(super) is_new: bool,
    pub(super) is_silent: bool,
    pub(super) eviction: Eviction,
}

// --- Shared ---

impl SharedList {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at a node. If it is to lose its pods it has to wait for its turn, or it is its turn now.
    pub(super) fn look(&self, node: &Node, lease: Option<&str>, now: Instant) -> Look {
        let name = &*node.metadata.name;
        let mut state = self.lock();
        let is_new = state.lives.observe(node, lease, now);
        state.zones.observe(node, now);
        let mut eviction = Eviction::of(node, state.zones.is_stopped());
        match eviction {
            Eviction::Ask(key) if state.zones.ask(name, now) => eviction = Eviction::Have(key),
            Eviction::Ask(_) => self.wake.notify_one(),
            Eviction::Leave | Eviction::End | Eviction::Have(_) => state.zones.content(name),
        }
        Look {
            is_new,
            is_silent: state.lives.is_silent(name, now),
            eviction,
        }
    }
}

/// The time in a node's lease, as far as the informer knows.
pub(super) fn renew_time(leases: &Informer<Lease>, node: &str) -> Option<Box<str>> {
    let key = kubecontroller::Key::new(super::LEASE_NAMESPACE, node);
    leases.store().get(&key)?.spec.renew_time.clone()
}
