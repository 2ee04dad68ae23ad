//! Defaulting of dependent service fields, from what the client sent, the old service and the IP families of the cluster.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{
    CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, NONE, cluster_ips,
    families::{IpFamily, ServiceIpFamilies},
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

/// Defaults clusterIPs, ipFamilies and ipFamilyPolicy of a new service, or rejects it.
// upstream: pkg/registry/core/service/storage/storage.go beginCreate
pub fn default_on_create(service: &mut Value, ranges: ServiceIpFamilies) -> Result<(), Status> {
    normalize_cluster_ips_on_create(service);
    init_ip_family_fields(service, None, ranges)
}

/// The same on update: allocated values that the client omitted are kept.
// upstream: pkg/registry/core/service/storage/storage.go beginUpdate
pub fn default_on_update(new: &mut Value, old: &Value, ranges: ServiceIpFamilies) -> Result<(), Status> {
    let mut old = old.clone();
    default_on_read(&mut old, ranges);
    patch_allocated_values(new, &old);
    normalize_cluster_ips_on_update(new, &old);
    init_ip_family_fields(new, Some(&old), ranges)
}

/// Defaults a service that was stored before all of today's fields existed.
// upstream: pkg/registry/core/service/storage/storage.go defaultOnReadService
pub fn default_on_read(service: &mut Value, ranges: ServiceIpFamilies) {
    normalize_cluster_ips_on_create(service);
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
                .map(|ip| IpFamily::of(ip).unwrap_or(IpFamily::V4))
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

/// A client that sets only clusterIP gets clusterIPs.
// upstream: pkg/registry/core/service/storage/storage.go normalizeClusterIPs
fn normalize_cluster_ips_on_create(service: &mut Value) {
    let spec = service.ensure_object("spec");
    let ip = spec.text("clusterIP").to_owned();
    if !ip.is_empty() && spec.items("clusterIPs").is_empty() {
        spec.set("clusterIPs", json!([ip]));
    }
}

/// The same on update: clusterIPs follows clusterIP unless the client changed it.
// upstream: pkg/registry/core/service/storage/storage.go normalizeClusterIPs
fn normalize_cluster_ips_on_update(new: &mut Value, old: &Value) {
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

/// Keeps allocated values that the client did not repeat.
// upstream: pkg/registry/core/service/storage/storage.go patchAllocatedValues
fn patch_allocated_values(new: &mut Value, old: &Value) {
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
    if needs_node_ports(new) && needs_node_ports(old) {
        keep_node_ports(new.ensure_object("spec"), before);
    }
    if needs_health_check(new) && needs_health_check(old) {
        let spec = new.ensure_object("spec");
        if spec.int_or_zero("healthCheckNodePort") == 0 {
            spec.copy_from("healthCheckNodePort", before);
        }
    }
}

/// Ports of the same name keep their node ports, unless another port requests them.
// upstream: pkg/registry/core/service/storage/storage.go patchAllocatedValues
fn keep_node_ports(spec: &mut Value, before: &Value) {
    let number = |port: &Value| port.int_or_zero("nodePort");
    let old = before.items("ports");
    let old_numbers: HashSet<i64> = old.iter().map(number).collect();
    let requested = spec.items("ports").iter().map(number);
    let used: HashSet<i64> = requested.filter(|used| old_numbers.contains(used)).collect();
    // Of several ports with one name, the last counts.
    let by_name: HashMap<&str, i64> = old.iter().map(|port| (port.text("name"), number(port))).collect();
    for port in spec.items_mut("ports") {
        if number(port) != 0 {
            continue;
        }
        let node_port = by_name
            .get(port.text("name"))
            .copied()
            .filter(|node_port| *node_port != 0 && !used.contains(node_port));
        if let Some(node_port) = node_port {
            port.set("nodePort", node_port);
        }
    }
}

fn needs_node_ports(service: &Value) -> bool {
    let allocates = service.at("spec").at("allocateLoadBalancerNodePorts");
    match kind(service) {
        NODE_PORT => true,
        LOAD_BALANCER => allocates.as_bool() != Some(false),
        _ => false,
    }
}

/// Whether a PreferDualStack service keeps its addresses and families: nothing about them changes, even if the cluster has more or
/// fewer families now.
// upstream: pkg/registry/core/service/storage/alloc.go isMatchingPreferDualStackClusterIPFields
pub(super) fn is_matching_prefer_dual_stack(new: &Value, old: &Value) -> bool {
    let spec = new.at("spec");
    let before = old.at("spec");
    spec.at("ipFamilyPolicy") == PREFER_DUAL
        && matches!(before.at("ipFamilyPolicy").as_str(), None | Some(PREFER_DUAL))
        && kind(new) == kind(old)
        && matches!(kind(new), CLUSTER_IP | NODE_PORT | LOAD_BALANCER)
        && spec.items("clusterIPs") == before.items("clusterIPs")
        && spec.items("ipFamilies") == before.items("ipFamilies")
}

// upstream: pkg/registry/core/service/storage/alloc.go initIPFamilyFields
fn init_ip_family_fields(
    service: &mut Value,
    old: Option<&Value>,
    ranges: ServiceIpFamilies,
) -> Result<(), Status> {
    if kind(service) == EXTERNAL_NAME || old.is_some_and(|old| is_matching_prefer_dual_stack(service, old)) {
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
    cluster_ips::validate_cluster_ips(&mut errors, service, old);
    reject_if_invalid(service, &errors)?;

    if let Some(old) = old {
        downgrade_to_single_stack(&mut errors, service.ensure_object("spec"), old.at("spec"));
    }
    validate_policy_for_lists(&mut errors, service.at("spec"));
    infer_families(&mut errors, service.ensure_object("spec"), ranges);
    reject_if_invalid(service, &errors)?;

    let spec = service.ensure_object("spec");
    let single = spec.at("ipFamilyPolicy") == SINGLE;
    if !without_pods {
        validate_families_configured(&mut errors, spec, ranges);
        reject_if_invalid(service, &errors)?;
    }
    let spec = service.ensure_object("spec");
    let mut families: Vec<_> = spec.texts("ipFamilies").filter_map(IpFamily::parse).collect();
    if families.is_empty() {
        families.push(ranges.primary);
    }
    // Nothing is allocated for a headless service without selector: it can always have both families.
    if let [only] = families[..]
        && !single
        && (without_pods || ranges.dual)
    {
        families.push(only.other());
    }
    set_families(spec, &families);
    Ok(())
}

/// Changing to SingleStack drops the second address and family; without that change they cannot be removed.
// upstream: pkg/registry/core/service/storage/alloc.go initIPFamilyFields, reducedClusterIPs
fn downgrade_to_single_stack(errors: &mut ErrorList, spec: &mut Value, before: &Value) {
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
            push_policy_error(errors, spec, detail);
        }
    }
}

fn validate_policy_for_lists(errors: &mut ErrorList, spec: &Value) {
    if spec.at("ipFamilyPolicy") != SINGLE {
        return;
    }
    for (list, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if spec.items(list).len() == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            push_policy_error(errors, spec, &detail);
        }
    }
}

fn push_policy_error(errors: &mut ErrorList, spec: &Value, detail: &str) {
    let root = Path::new("spec");
    let field_path = root.child("ipFamilyPolicy");
    errors.push(Error::invalid(
        &field_path,
        go_values::json_value(spec.at("ipFamilyPolicy")),
        detail,
    ));
}

/// Infers the families from the addresses.
// upstream: pkg/registry/core/service/storage/alloc.go initIPFamilyFields
fn infer_families(errors: &mut ErrorList, spec: &mut Value, ranges: ServiceIpFamilies) {
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
        match IpFamily::of(ip) {
            Some(family) if ranges.have(family) => families.push(json!(family.name())),
            family => {
                let name = family.map_or("unknown", IpFamily::name);
                let detail = format!("{name} is not configured on this cluster");
                let ips_value = go_values::json_value(spec.at("clusterIPs"));
                errors.push(Error::invalid(&field_path.index(index), ips_value, detail));
            }
        }
    }
    if !families.is_empty() {
        spec.set("ipFamilies", families);
    }
}

/// Requested families must be configured.
// upstream: pkg/registry/core/service/storage/alloc.go initIPFamilyFields
fn validate_families_configured(errors: &mut ErrorList, spec: &Value, ranges: ServiceIpFamilies) {
    if spec.at("ipFamilyPolicy") == REQUIRE_DUAL && !ranges.dual {
        push_policy_error(
            errors,
            spec,
            "this cluster is not configured for dual-stack services",
        );
    }
    let root = Path::new("spec");
    let field_path = root.child("ipFamilies");
    for (index, name) in spec.texts("ipFamilies").enumerate() {
        if !IpFamily::parse(name).is_some_and(|family| ranges.have(family)) {
            let family_value = go_values::typed_string(name);
            let detail = "not configured on this cluster";
            errors.push(Error::invalid(&field_path.index(index), family_value, detail));
        }
    }
}

fn set_families(spec: &mut Value, families: &[IpFamily]) {
    let names: Vec<_> = families.iter().map(|family| json!(family.name())).collect();
    spec.set("ipFamilies", names);
}

fn reject_if_invalid(service: &Value, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    let name = service.at("metadata").text("name");
    Err(Status::invalid(GroupResource::new("", "Service"), name, errors))
}
