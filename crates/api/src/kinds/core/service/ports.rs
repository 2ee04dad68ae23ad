//! Which ports on all nodes are to be given to a service, and which it gives back.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{LOAD_BALANCER, NODE_PORT, kind, needs_health_check};
use crate::{
    status::Status,
    strategy::{Tree, TreeMut},
};

/// A port on all nodes that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// This one.
    Number(i64),
    /// Any that is free.
    Any,
    /// None of its own: the one that the port at this index gets.
    SameAs(usize),
}

/// What changes about the ports on nodes of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortChanges {
    /// Ports to give it, with the index of the port of the service each is for. In this order.
    pub take: Vec<(usize, Want)>,
    /// The port for questions after its health, if one is to be given.
    pub health: Option<Want>,
    /// Ports it gives back once the change is stored.
    pub release: Vec<i64>,
}

/// What changes about the ports on nodes of a service that is settled. Without an old one it is new; without a new one
/// it goes.
pub fn node_ports(new: Option<&Value>, old: Option<&Value>) -> Result<PortChanges, Status> {
    let mut changes = PortChanges::default();
    match (new, old) {
        (Some(new), None) => {
            if is_on_nodes(new) {
                changes.take = of_new(new);
            }
            changes.health = needs_health_check(new).then(|| health(new));
        }
        (Some(new), Some(old)) => {
            if is_on_nodes(new) {
                changes.take = of_changed(new, old)?;
                let kept: Vec<_> = numbers(new).collect();
                changes.release = numbers(old).filter(|number| !kept.contains(number)).collect();
            } else if is_on_nodes(old) {
                changes.release = numbers(old).collect();
            }
            match (needs_health_check(old), needs_health_check(new)) {
                (false, true) => changes.health = Some(health(new)),
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

/// Writes a port on nodes that was given to a service into it.
pub fn put_node_port(service: &mut Value, index: usize, number: i64) {
    if let Some(port) = service.ensure_object("spec").items_mut("ports").get_mut(index) {
        port.set("nodePort", number);
    }
}

/// Writes the port for questions after its health into a service.
pub fn put_health_port(service: &mut Value, number: i64) {
    service.ensure_object("spec").set("healthCheckNodePort", number);
}

/// Ports of one number, of several protocols, share a port on nodes.
fn of_new(service: &Value) -> Vec<(usize, Want)> {
    let ports = service.at("spec").items("ports");
    let own = number_of;
    let mut wants = Vec::new();
    // By number of the port: the index of the first, and its port on nodes if that is known.
    let mut first: HashMap<i64, (usize, Option<i64>)> = HashMap::new();
    // By number of the port: the first port on nodes that is asked for.
    let mut asked_for: HashMap<i64, i64> = HashMap::new();
    for port in ports.iter().filter(|port| own(port) != 0) {
        let number = port.int("port").unwrap_or_default();
        asked_for.entry(number).or_insert(own(port));
    }
    for (index, port) in ports.iter().enumerate() {
        if own(port) == 0 && !allocates(service) {
            continue;
        }
        let number = port.int("port").unwrap_or_default();
        match first.get(&number) {
            None => {
                let asked = asked_for.get(&number).copied();
                wants.push((index, asked.map_or(Want::Any, Want::Number)));
                first.insert(number, (index, asked));
            }
            Some((first, _)) if own(port) == 0 => wants.push((index, Want::SameAs(*first))),
            Some((_, asked)) if *asked != Some(own(port)) => {
                wants.push((index, Want::Number(own(port))));
            }
            Some(_) => {}
        }
    }
    wants
}

fn of_changed(new: &Value, old: &Value) -> Result<Vec<(usize, Want)>, Status> {
    let held: HashSet<_> = numbers(old).collect();
    let mut wanted: HashSet<i64> = HashSet::new();
    let mut wants = Vec::new();
    let mut seen: HashSet<(&str, i64)> = HashSet::new();
    for (index, port) in new.at("spec").items("ports").iter().enumerate() {
        let number = number_of(port);
        if number == 0 {
            if allocates(new) {
                wants.push((index, Want::Any));
            }
            continue;
        }
        if !held.contains(&number) && wanted.insert(number) {
            wants.push((index, Want::Number(number)));
        }
        let pair = (port.text("protocol"), number);
        if !seen.insert(pair) {
            let message = format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1);
            return Err(Status::unknown(message));
        }
    }
    Ok(wants)
}

fn is_on_nodes(service: &Value) -> bool {
    matches!(kind(service), NODE_PORT | LOAD_BALANCER)
}

/// Whether ports are given out that nobody asked for by number.
fn allocates(service: &Value) -> bool {
    kind(service) == NODE_PORT || service.at("spec").flag("allocateLoadBalancerNodePorts")
}

fn numbers(service: &Value) -> impl Iterator<Item = i64> {
    let ports = service.at("spec").items("ports").iter();
    ports.map(number_of).filter(|number| *number != 0)
}

fn number_of(port: &Value) -> i64 {
    port.int("nodePort").unwrap_or_default()
}

fn health(service: &Value) -> Want {
    health_port(service).map_or(Want::Any, Want::Number)
}

fn health_port(service: &Value) -> Option<i64> {
    let number = service.at("spec").int("healthCheckNodePort");
    number.filter(|number| *number != 0)
}
