//! A node with its pods.

use std::sync::Arc;

use crate::{
    interner::Text,
    number::count,
    object::{HostPort, Node, Pod, Resources},
};

const ANY_ADDRESS: &str = "0.0.0.0";

/// A node with its pods, and what they take together.
#[derive(Clone, Debug)]
// upstream: pkg/scheduler/framework/types.go NodeInfo
pub struct NodeInfo {
    /// Its name.
    pub name: Text,
    /// The node itself; pods may be known before it.
    pub node: Option<Arc<Node>>,
    /// Its pods.
    pub pods: Vec<Arc<Pod>>,
    /// Those that say something about other pods.
    pub pods_with_affinity: Vec<Arc<Pod>>,
    /// What they ask for.
    pub requested: Resources,
    /// Processor and memory with the usual amounts for those that ask for none.
    pub counted: (i64, i64),
    ports: Vec<HostPort>,
}

impl NodeInfo {
    /// A node of which only the name is known.
    pub(crate) fn named(name: Text) -> Self {
        NodeInfo {
            name,
            node: None,
            pods: Vec::new(),
            pods_with_affinity: Vec::new(),
            requested: Resources::default(),
            counted: (0, 0),
            ports: Vec::new(),
        }
    }

    /// How many pods it has.
    pub(crate) fn pods(&self) -> i64 {
        count(self.pods.len())
    }

    /// Adds a pod and its requests.
    pub(crate) fn add(&mut self, pod: Arc<Pod>) {
        let requests = pod.requests();
        self.requested.add(&requests.asked);
        self.counted.0 += requests.counted.0;
        self.counted.1 += requests.counted.1;
        self.ports.extend_from_slice(&pod.spec.ports);
        if pod.spec.has_pod_affinity {
            self.pods_with_affinity.push(pod.clone());
        }
        self.pods.push(pod);
    }

    /// Removes a pod and its requests.
    pub(crate) fn remove(&mut self, uid: &Text) {
        let Some(at) = self.pods.iter().position(|pod| pod.uid == *uid) else {
            return;
        };
        let pod = self.pods.swap_remove(at);
        let requests = pod.requests();
        self.requested.subtract(&requests.asked);
        self.counted.0 -= requests.counted.0;
        self.counted.1 -= requests.counted.1;
        for port in &pod.spec.ports {
            if let Some(at) = self.ports.iter().position(|known| known == port) {
                self.ports.swap_remove(at);
            }
        }
        self.pods_with_affinity.retain(|pod| pod.uid != *uid);
    }

    /// Replaces a pod whose requests did not change.
    pub(super) fn swap(&mut self, pod: &Arc<Pod>) {
        for known in self.pods.iter_mut().chain(&mut self.pods_with_affinity) {
            if known.uid == pod.uid {
                *known = pod.clone();
            }
        }
    }

    /// Whether a port is taken already.
    pub(crate) fn port_taken(&self, asked: &HostPort) -> bool {
        self.ports.iter().any(|port| ports_conflict(port, asked))
    }
}

/// Whether two ports cannot be had at once.
pub(crate) fn ports_conflict(one: &HostPort, other: &HostPort) -> bool {
    one.port == other.port
        && one.protocol == other.protocol
        && (one.address == other.address || &*one.address == ANY_ADDRESS || &*other.address == ANY_ADDRESS)
}
