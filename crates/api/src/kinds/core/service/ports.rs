//! Node ports to allocate for a service, and those to release.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{LOAD_BALANCER, NODE_PORT, kind, needs_health_check};
use crate::{
    status::Status,
    strategy::{Tree, TreeMut},
};

/// A requested node port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePortRequest {
    /// This number.
    Number(i64),
    /// Any free number.
    Any,
    /// The number that the port at this index gets.
    SameAs(usize),
}

/// Allocation and release of node ports for a write of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortChanges {
    /// Node ports to allocate with the index of the service port, in this order.
    pub take: Vec<(usize, NodePortRequest)>,
    /// The health check node port to allocate.
    pub health: Option<NodePortRequest>,
    /// Node ports to release once the change is stored.
    pub release: Vec<i64>,
}

/// The node port changes of a defaulted service. Without an old one it is created; without a new one it is deleted.
// upstream: pkg/registry/core/service/storage/alloc.go txnAllocNodePorts, txnUpdateNodePorts
pub fn node_port_changes(new: Option<&Value>, old: Option<&Value>) -> Result<PortChanges, Status> {
    let mut changes = PortChanges::default();
    match (new, old) {
        (Some(new), None) => {
            if needs_node_ports(new) {
                changes.take = requests_on_create(new);
            }
            changes.health = needs_health_check(new).then(|| health_check_request(new));
        }
        (Some(new), Some(old)) => {
            if needs_node_ports(new) {
                changes.take = requests_on_update(new, old)?;
                let new_numbers: Vec<_> = numbers(new).collect();
                changes.release = numbers(old)
                    .filter(|number| !new_numbers.contains(number))
                    .collect();
            } else if needs_node_ports(old) {
                changes.release = numbers(old).collect();
            }
            match (needs_health_check(old), needs_health_check(new)) {
                (false, true) => changes.health = Some(health_check_request(new)),
                (true, false) => changes.release.extend(health_port(old)),
                _ => {}
            }
        }
        (None, Some(old)) => {
            changes.release = numbers(old).collect();
            if needs_health_check(old) {
                changes.release.extend(health_port(old));
            }
        }
        (None, None) => {}
    }
    Ok(changes)
}

/// Writes an allocated node port into a service.
pub fn set_node_port(service: &mut Value, index: usize, number: i64) {
    if let Some(port) = service.ensure_object("spec").items_mut("ports").get_mut(index) {
        port.set("nodePort", number);
    }
}

/// Writes the health check node port into a service.
pub fn set_health_check_node_port(service: &mut Value, number: i64) {
    service.ensure_object("spec").set("healthCheckNodePort", number);
}

/// Service ports with one number and several protocols share a node port.
// upstream: pkg/registry/core/service/storage/alloc.go initNodePorts
fn requests_on_create(service: &Value) -> Vec<(usize, NodePortRequest)> {
    let ports = service.at("spec").items("ports");
    let own = number_of;
    let mut wants = Vec::new();
    // By service port number: the index of the first, and its node port if it is known.
    let mut first: HashMap<i64, (usize, Option<i64>)> = HashMap::new();
    // By service port number: the first requested node port.
    let mut asked_for: HashMap<i64, i64> = HashMap::new();
    for port in ports.iter().filter(|port| own(port) != 0) {
        let number = port.int_or_zero("port");
        asked_for.entry(number).or_insert(own(port));
    }
    for (index, port) in ports.iter().enumerate() {
        if own(port) == 0 && !should_allocate_node_ports(service) {
            continue;
        }
        let number = port.int_or_zero("port");
        match first.get(&number) {
            None => {
                let requested = asked_for.get(&number).copied();
                wants.push((
                    index,
                    requested.map_or(NodePortRequest::Any, NodePortRequest::Number),
                ));
                first.insert(number, (index, requested));
            }
            Some((first, _)) if own(port) == 0 => wants.push((index, NodePortRequest::SameAs(*first))),
            Some((_, requested)) if *requested != Some(own(port)) => {
                wants.push((index, NodePortRequest::Number(own(port))));
            }
            Some(_) => {}
        }
    }
    wants
}

// upstream: pkg/registry/core/service/storage/alloc.go updateNodePorts
fn requests_on_update(new: &Value, old: &Value) -> Result<Vec<(usize, NodePortRequest)>, Status> {
    let old_numbers: HashSet<_> = numbers(old).collect();
    let mut requested: HashSet<i64> = HashSet::new();
    let mut wants = Vec::new();
    let mut seen: HashSet<(&str, i64)> = HashSet::new();
    for (index, port) in new.at("spec").items("ports").iter().enumerate() {
        let number = number_of(port);
        if number == 0 {
            if should_allocate_node_ports(new) {
                wants.push((index, NodePortRequest::Any));
            }
            continue;
        }
        if !old_numbers.contains(&number) && requested.insert(number) {
            wants.push((index, NodePortRequest::Number(number)));
        }
        let pair = (port.text("protocol"), number);
        if !seen.insert(pair) {
            let message = format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1);
            return Err(Status::unknown(message));
        }
    }
    Ok(wants)
}

// upstream: pkg/registry/core/service/storage/alloc.go allocateCreate, allocateUpdate; the type decides, allocateLoadBalancerNodePorts does not: a
// LoadBalancer without automatic allocation may still request node ports by number
fn needs_node_ports(service: &Value) -> bool {
    matches!(kind(service), NODE_PORT | LOAD_BALANCER)
}

/// Whether node ports are allocated that were not requested by number.
// upstream: pkg/registry/core/service/storage/alloc.go shouldAllocateNodePorts
fn should_allocate_node_ports(service: &Value) -> bool {
    kind(service) == NODE_PORT || service.at("spec").flag("allocateLoadBalancerNodePorts")
}

fn numbers(service: &Value) -> impl Iterator<Item = i64> {
    let ports = service.at("spec").items("ports").iter();
    ports.map(number_of).filter(|number| *number != 0)
}

fn number_of(port: &Value) -> i64 {
    port.int_or_zero("nodePort")
}

// upstream: pkg/registry/core/service/storage/alloc.go allocHealthCheckNodePort
fn health_check_request(service: &Value) -> NodePortRequest {
    health_port(service).map_or(NodePortRequest::Any, NodePortRequest::Number)
}

fn health_port(service: &Value) -> Option<i64> {
    let number = service.at("spec").int("healthCheckNodePort");
    number.filter(|number| *number != 0)
}
