//! Assignment of pod addresses.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use k3_workloads::{Node, Pod};
use parking_lot::Mutex;

use crate::{node::Network, rules::hash};

/// Assigns addresses that are unique on a node.
#[derive(Default)]
pub(super) struct PodAddressAllocator {
    /// Assigned addresses that may not be in the informer's store yet, by node.
    assigned: Mutex<HashMap<u32, Vec<AssignedAddress>>>,
}

/// The uid of a pod, and its number in the networks of its node.
type AssignedAddress = (Box<str>, u32);

impl PodAddressAllocator {
    /// Returns the addresses of a pod, one in each network of its node; `None` if all are in use. The search starts at an offset
    /// derived from the uid, so that concurrent simulators choose the same address.
    pub(super) fn allocate(
        &self,
        number: u32,
        node: &Node,
        pod: &Pod,
        neighbours: &[Arc<Pod>],
    ) -> Option<Vec<IpAddr>> {
        let assigned_networks = node.spec.pod_cidrs.iter();
        let assigned_networks = assigned_networks.filter_map(|network| network.parse::<Network>().ok());
        let mut networks: Vec<_> = assigned_networks
            .map(|network| network.simulated(number))
            .collect();
        if networks.is_empty() {
            networks.push(Network::of(number));
        }
        let capacity = networks.iter().map(|network| network.capacity()).min()?;
        let first = networks.first()?;
        let mut assigned = self.assigned.lock();
        let assigned = assigned.entry(number).or_default();
        let is_unseen = |uid: &str| {
            let mut neighbours = neighbours.iter();
            neighbours.any(|pod| *pod.metadata.uid == *uid && pod.status.ip.is_empty())
        };
        assigned.retain(|(uid, _)| is_unseen(uid));
        let uid = &pod.metadata.uid;
        let number = assigned
            .iter()
            .find(|(owner, _)| owner == uid)
            .map(|(_, number)| *number);
        let number = number.or_else(|| {
            let used: HashSet<IpAddr> = neighbours
                .iter()
                .filter(|pod| !pod.has_ended())
                .filter_map(|pod| pod.status.ip.parse().ok())
                .collect();
            let start = u32::try_from(hash(0, uid) % u64::from(capacity.max(1))).unwrap_or(0);
            let is_free = |number: &u32| {
                !used.contains(&first.address(*number)) && assigned.iter().all(|(_, taken)| taken != number)
            };
            (start..capacity).chain(0..start).find(is_free)
        })?;
        if assigned.iter().all(|(owner, _)| owner != uid) {
            assigned.push((uid.clone(), number));
        }
        Some(networks.iter().map(|network| network.address(number)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pods_of_a_node_have_the_same_address() {
        let addresses = PodAddressAllocator::default();
        let mut node = Node::default();
        node.spec.pod_cidrs = vec!["10.0.0.0/28".into(), "fd00::/64".into()];
        let pods: Vec<_> = (0..14)
            .map(|pod| {
                let mut there = Pod::default();
                there.metadata.uid = format!("uid-{pod}").into();
                Arc::new(there)
            })
            .collect();
        let assigned: Vec<_> = pods
            .iter()
            .map(|pod| addresses.allocate(0, &node, pod, &pods))
            .collect();
        let distinct: HashSet<_> = assigned.iter().flatten().map(|both| both[0]).collect();
        assert_eq!(distinct.len(), 13);
        assert_eq!(assigned[13], None);
        assert_eq!(addresses.allocate(0, &node, &pods[3], &pods), assigned[3]);
        assert!(assigned[0].as_ref().unwrap()[1].is_ipv6());
    }
}
