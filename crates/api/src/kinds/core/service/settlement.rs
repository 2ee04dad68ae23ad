//! Fields of a service that follow from others: what a client left out is found in what it said, in what was there
//! before, and in what the cluster has.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, NONE, cluster_ips,
    families::{Family, Ranges},
    kind, needs_health_check,
};
use crate::{
    field::{Error, Path},
    kinds::go_values,
    status::{GroupResource, Status},
    strategy::{ErrorList, Tree, TreeMut},
};

const SINGLE: &str = "SingleStack";
const PREFER_DUAL: &str = "PreferDualStack";
const REQUIRE_DUAL: &str = "RequireDualStack";

/// Settles a new service: its addresses are listed, its families and the policy about them known. What cannot be is
/// refused.
pub fn settle_new(service: &mut Value, ranges: Ranges) -> Result<(), Status> {
    list_cluster_ip(service);
    settle_families(service, None, ranges)
}

/// Settles a changed service in the same way: what a client left out that the server once gave out is kept.
pub fn settle_change(new: &mut Value, old: &Value, ranges: Ranges) -> Result<(), Status> {
    let mut old = old.clone();
    complete(&mut old, ranges);
    keep_given(new, &old);
    relist_cluster_ips(new, &old);
    settle_families(new, Some(&old), ranges)
}

/// Completes a service that was stored before all of today's fields were there.
pub fn complete(service: &mut Value, ranges: Ranges) {
    list_cluster_ip(service);
    if kind(service) == EXTERNAL_NAME {
        service.ensure_object("spec").remove("internalTrafficPolicy");
        return;
    }
    let spec = service.ensure_object("spec");
    if !spec.items("ipFamilies").is_empty() {
        return;
    }
    let primary = ranges.primary;
    let (families, policy) = match (spec.text("clusterIP"), spec.entries("selector").is_empty()) {
        (NONE, true) => (vec![primary, primary.other()], REQUIRE_DUAL),
        (NONE, false) => (vec![primary], SINGLE),
        _ => {
            let families: Vec<_> = spec
                .texts("clusterIPs")
                .map(|ip| Family::of(ip).unwrap_or(Family::V4))
                .collect();
            let policy = if families.len() == 2 { REQUIRE_DUAL } else { SINGLE };
            (families, policy)
        }
    };
    if !families.is_empty() {
        set_families(spec, &families);
        spec.set("ipFamilyPolicy", policy);
    }
}

/// A client that knows one address only means a list of it.
fn list_cluster_ip(service: &mut Value) {
    let spec = service.ensure_object("spec");
    let ip = spec.text("clusterIP").to_owned();
    if !ip.is_empty() && spec.items("clusterIPs").is_empty() {
        spec.set("clusterIPs", json!([ip]));
    }
}

/// The same for a change: the list follows the one address as long as the client left it alone.
fn relist_cluster_ips(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let spec = new.ensure_object("spec");
    let same_ip = spec.text("clusterIP") == before.text("clusterIP");
    if same_ip && spec.items("clusterIPs").is_empty() {
        spec.copy_from("clusterIPs", before);
    }
    if same_ip || spec.items("clusterIPs") != before.items("clusterIPs") {
        return;
    }
    match spec.text("clusterIP").to_owned() {
        ip if ip.is_empty() => drop(spec.remove("clusterIPs")),
        ip => spec.set("clusterIPs", json!([ip])),
    }
}

/// What the server gave out, and the client did not repeat, is still meant.
fn keep_given(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    if kind(new) != EXTERNAL_NAME && kind(old) != EXTERNAL_NAME {
        let spec = new.ensure_object("spec");
        if spec.text("clusterIP").is_empty() {
            spec.copy_from("clusterIP", before);
        }
        if spec.items("clusterIPs").is_empty() {
            spec.copy_from("clusterIPs", before);
        }
    }
    if takes_node_ports(new) && takes_node_ports(old) {
        keep_node_ports(new.ensure_object("spec"), before);
    }
    if needs_health_check(new) && needs_health_check(old) {
        let spec = new.ensure_object("spec");
        if spec.int("healthCheckNodePort").unwrap_or_default() == 0 {
            spec.copy_from("healthCheckNodePort", before);
        }
    }
}

/// Gives ports of the same name their old ports on nodes, unless another one has asked for them.
fn keep_node_ports(spec: &mut Value, before: &Value) {
    let number = |port: &Value| port.int("nodePort").unwrap_or_default();
    let old = before.items("ports");
    let held: HashSet<i64> = old.iter().map(number).collect();
    let asked = spec.items("ports").iter().map(number);
    let used: HashSet<i64> = asked.filter(|used| held.contains(used)).collect();
    // Of several ports by one name, the last.
    let by_name: HashMap<&str, i64> = old.iter().map(|port| (port.text("name"), number(port))).collect();
    for port in spec.items_mut("ports") {
        if number(port) != 0 {
            continue;
        }
        let kept = by_name
            .get(port.text("name"))
            .copied()
            .filter(|kept| *kept != 0 && !used.contains(kept));
        if let Some(kept) = kept {
            port.set("nodePort", kept);
        }
    }
}

fn takes_node_ports(service: &Value) -> bool {
    let allocates = service.at("spec").at("allocateLoadBalancerNodePorts");
    match kind(service) {
        NODE_PORT => true,
        LOAD_BALANCER => allocates.as_bool() != Some(false),
        _ => false,
    }
}

/// Whether nothing about addresses changes in a service that takes what the cluster happens to have: it keeps what it
/// has, also when the cluster has more or less now.
pub(super) fn stays_as_it_is(new: &Value, old: &Value) -> bool {
    let spec = new.at("spec");
    let before = old.at("spec");
    spec.at("ipFamilyPolicy") == PREFER_DUAL
        && matches!(before.at("ipFamilyPolicy").as_str(), None | Some(PREFER_DUAL))
        && kind(new) == kind(old)
        && matches!(kind(new), CLUSTER_IP | NODE_PORT | LOAD_BALANCER)
        && spec.items("clusterIPs") == before.items("clusterIPs")
        && spec.items("ipFamilies") == before.items("ipFamilies")
}

fn settle_families(service: &mut Value, old: Option<&Value>, ranges: Ranges) -> Result<(), Status> {
    if kind(service) == EXTERNAL_NAME || old.is_some_and(|old| stays_as_it_is(service, old)) {
        return Ok(());
    }
    let without_pods = {
        let spec = service.at("spec");
        spec.text("clusterIP") == NONE && spec.entries("selector").is_empty()
    };
    if !service.at("spec").has("ipFamilyPolicy") {
        let before = old.and_then(|old| old.at("spec").at("ipFamilyPolicy").as_str());
        let policy = before.unwrap_or(if without_pods { REQUIRE_DUAL } else { SINGLE });
        service.ensure_object("spec").set("ipFamilyPolicy", policy);
    }
    let mut errors = ErrorList::new();
    cluster_ips::judge(&mut errors, service, old);
    refuse(service, &errors)?;

    if let Some(old) = old {
        shrink(&mut errors, service.ensure_object("spec"), old.at("spec"));
    }
    demand_policy(&mut errors, service.at("spec"));
    infer_families(&mut errors, service.ensure_object("spec"), ranges);
    refuse(service, &errors)?;

    let spec = service.ensure_object("spec");
    let single = spec.at("ipFamilyPolicy") == SINGLE;
    if !without_pods {
        demand_ranges(&mut errors, spec, ranges);
        refuse(service, &errors)?;
    }
    let spec = service.ensure_object("spec");
    let mut families: Vec<_> = spec.texts("ipFamilies").filter_map(Family::named).collect();
    if families.is_empty() {
        families.push(ranges.primary);
    }
    // Nothing is given out to a service without pods and addresses of its own: it can always have both.
    if let [only] = families[..]
        && !single
        && (without_pods || ranges.dual)
    {
        families.push(only.other());
    }
    set_families(spec, &families);
    Ok(())
}

/// With the wish for one family alone, the second address goes; without it, it cannot.
fn shrink(errors: &mut ErrorList, spec: &mut Value, before: &Value) {
    let lists = [
        (
            "clusterIPs",
            "must be 'SingleStack' to release the secondary cluster IP",
        ),
        (
            "ipFamilies",
            "must be 'SingleStack' to release the secondary IP family",
        ),
    ];
    if spec.at("ipFamilyPolicy") == SINGLE {
        for (list, _) in lists {
            if spec.items(list).len() > 1 && spec.items(list) == before.items(list) {
                let first = spec.items(list)[..1].to_vec();
                spec.set(list, first);
            }
        }
        return;
    }
    for (list, detail) in lists {
        let now = spec.items(list).len();
        let then = before.items(list).len();
        if now > 0 && now < then {
            tell_policy(errors, spec, detail);
        }
    }
}

fn demand_policy(errors: &mut ErrorList, spec: &Value) {
    if spec.at("ipFamilyPolicy") != SINGLE {
        return;
    }
    for (list, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec.items(list).len() == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            tell_policy(errors, spec, &detail);
        }
    }
}

fn tell_policy(errors: &mut ErrorList, spec: &Value, detail: &str) {
    let root = Path::new("spec");
    let field_path = root.child("ipFamilyPolicy");
    errors.push(Error::invalid(
        &field_path,
        go_values::json_value(spec.at("ipFamilyPolicy")),
        detail,
    ));
}

/// Addresses tell their families.
fn infer_families(errors: &mut ErrorList, spec: &mut Value, ranges: Ranges) {
    let mut families = spec.items("ipFamilies").to_vec();
    let root = Path::new("spec");
    let field_path = root.child("clusterIPs");
    for (index, ip) in spec.texts("clusterIPs").enumerate() {
        if ip == NONE {
            break;
        }
        if index < families.len() {
            continue;
        }
        match Family::of(ip) {
            Some(family) if ranges.have(family) => families.push(json!(family.name())),
            family => {
                let name = family.map_or("unknown", Family::name);
                let detail = format!("{name} is not configured on this cluster");
                let shown = go_values::json_value(spec.at("clusterIPs"));
                errors.push(Error::invalid(&field_path.index(index), shown, detail));
            }
        }
    }
    if !families.is_empty() {
        spec.set("ipFamilies", families);
    }
}

/// Families that are asked for must be there.
fn demand_ranges(errors: &mut ErrorList, spec: &Value, ranges: Ranges) {
    if spec.at("ipFamilyPolicy") == REQUIRE_DUAL && !ranges.dual {
        tell_policy(
            errors,
            spec,
            "this cluster is not configured for dual-stack services",
        );
    }
    let root = Path::new("spec");
    let field_path = root.child("ipFamilies");
    for (index, name) in spec.texts("ipFamilies").enumerate() {
        if !Family::named(name).is_some_and(|family| ranges.have(family)) {
            let shown = go_values::typed_string(name);
            let detail = "not configured on this cluster";
            errors.push(Error::invalid(&field_path.index(index), shown, detail));
        }
    }
}

fn set_families(spec: &mut Value, families: &[Family]) {
    let names: Vec<_> = families.iter().map(|family| json!(family.name())).collect();
    spec.set("ipFamilies", names);
}

fn refuse(service: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = service.at("metadata").text("name");
    Err(Status::invalid(GroupResource::new("", "Service"), name, errors))
}
