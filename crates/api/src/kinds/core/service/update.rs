//! Service updates: immutable fields, and fields that a type change drops.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_externally_accessible, is_headless, kind, needs_health_check,
    validation,
};
use crate::{
    field::{Error, Path},
    kinds::go_values,
    strategy::{ErrorList, Tree, TreeMut},
};

const SET_ONCE: &str = "may not change once set";

/// Drops fields that the new type does not use, unless the user changed them too: the server may have set them.
// upstream: pkg/registry/core/service/strategy.go dropTypeDependentFields
pub(super) fn drop_type_dependent_fields(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let old_kind = kind(old);
    let new_kind = kind(new).to_owned();
    let unchanged = |new: &Value, name: &str| new.at("spec").at(name) == before.at(name);
    let mut dropped = Vec::new();
    if old_kind != EXTERNAL_NAME && new_kind == EXTERNAL_NAME {
        if unchanged(new, "clusterIP") && unchanged(new, "clusterIPs") {
            dropped.extend(["clusterIP", "clusterIPs"]);
        }
        dropped.extend(
            ["ipFamilies", "ipFamilyPolicy"]
                .iter()
                .filter(|name| unchanged(new, name)),
        );
    }
    let on_nodes = |kind: &str| matches!(kind, NODE_PORT | LOAD_BALANCER);
    if on_nodes(old_kind) && !on_nodes(&new_kind) && adds_no_node_port(new, old) {
        for port in new.ensure_object("spec").items_mut("ports") {
            port.remove("nodePort");
        }
    }
    if needs_health_check(old) && !needs_health_check(new) && unchanged(new, "healthCheckNodePort") {
        dropped.push("healthCheckNodePort");
    }
    if old_kind == LOAD_BALANCER && new_kind != LOAD_BALANCER {
        dropped.extend(
            ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
                .iter()
                .filter(|name| unchanged(new, name)),
        );
    }
    if is_externally_accessible(before)
        && !is_externally_accessible(new.at("spec"))
        && unchanged(new, "externalTrafficPolicy")
    {
        dropped.push("externalTrafficPolicy");
    }
    for name in dropped {
        new.ensure_object("spec").remove(name);
    }
    if new_kind != LOAD_BALANCER && new.at("status").has("loadBalancer") {
        new.ensure_object("status")
            .set("loadBalancer", Value::Object(serde_json::Map::new()));
    }
}

// upstream: pkg/registry/core/service/strategy.go sameNodePorts
fn adds_no_node_port(new: &Value, old: &Value) -> bool {
    let numbers = |service: &Value| -> HashSet<i64> {
        let ports = service.at("spec").items("ports").iter();
        ports
            .filter_map(|port| port.int("nodePort"))
            .filter(|number| *number != 0)
            .collect()
    };
    let before = numbers(old);
    numbers(new).iter().all(|number| before.contains(number))
}

// upstream: pkg/apis/core/validation/validation.go ValidateServiceUpdate
pub(super) fn validate_service_update(errors: &mut ErrorList, new: &Value, old: &Value) {
    if kind(new) != EXTERNAL_NAME && kind(old) != EXTERNAL_NAME {
        validate_cluster_ips_update(errors, new, old);
        validate_ip_families_update(errors, new, old);
    }
    let root = Path::new("spec");
    let spec = new.at("spec");
    let before = old.at("spec");
    let class = "loadBalancerClass";
    if kind(new) == LOAD_BALANCER && kind(old) == LOAD_BALANCER && spec.at(class) != before.at(class) {
        let class_value = go_values::json_value(spec.at(class));
        errors.push(Error::invalid(&root.child(class), class_value, SET_ONCE));
    }
    validation::validate_load_balancer_class(errors, spec);
    let port = "healthCheckNodePort";
    if needs_health_check(old) && needs_health_check(new) && spec.int(port) != before.int(port) {
        errors.push(Error::forbidden(&root.child(port), "field is immutable"));
    }
}

/// The primary address is immutable; the secondary one can be added, and removed only if the policy allows it.
// upstream: pkg/apis/core/validation/validation.go validateUpgradeDowngradeClusterIPs
fn validate_cluster_ips_update(errors: &mut ErrorList, new: &Value, old: &Value) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let root = Path::new("spec");
    let field_path = root.child("clusterIPs");
    let list = new.at("spec").at("clusterIPs");
    let before = old.at("spec").items("clusterIPs");
    let now = new.at("spec").items("clusterIPs");
    let list_value = || go_values::json_value(list);
    if now.len() == before.len() {
        for (index, (ip, old_ip)) in now.iter().zip(before).enumerate() {
            if ip != old_ip {
                errors.push(Error::invalid(&field_path.index(index), list_value(), SET_ONCE));
            }
        }
        return;
    }
    if now.is_empty() {
        let detail = "primary clusterIP can not be unset";
        errors.push(Error::invalid(&field_path.index(0), list_value(), detail));
    }
    if let (Some(ip), Some(old_ip)) = (now.first(), before.first())
        && ip != old_ip
    {
        errors.push(Error::invalid(&field_path.index(0), list_value(), SET_ONCE));
    }
    if now.len() < before.len() && now.len() == 1 {
        require_single_stack(errors, new, "clusterIP");
    }
}

/// The same for ipFamilies.
// upstream: pkg/apis/core/validation/validation.go validateUpgradeDowngradeIPFamilies
fn validate_ip_families_update(errors: &mut ErrorList, new: &Value, old: &Value) {
    if is_headless(new) || is_headless(old) {
        return;
    }
    let root = Path::new("spec");
    let field_path = root.child("ipFamilies");
    let field_path = field_path.index(0);
    let spec = new.at("spec");
    let before = old.at("spec").items("ipFamilies");
    let now = spec.items("ipFamilies");
    if now.len() == before.len() {
        for (family, old_family) in now.iter().zip(before) {
            if family != old_family {
                let families_value = go_values::json_value(spec.at("ipFamilies"));
                errors.push(Error::invalid(&field_path, families_value, SET_ONCE));
            }
        }
        return;
    }
    let fewer = now.len() < before.len();
    if fewer && spec.items("clusterIPs").is_empty() {
        let families_value = go_values::json_value(spec.at("ipFamilies"));
        let detail = "primary ipFamily can not be unset";
        errors.push(Error::invalid(&field_path, families_value, detail));
    }
    if let (Some(family), Some(old_family)) = (now.first(), before.first())
        && family != old_family
    {
        let ips_value = go_values::json_value(spec.at("clusterIPs"));
        errors.push(Error::invalid(&field_path, ips_value, SET_ONCE));
    }
    if fewer && now.len() == 1 {
        require_single_stack(errors, new, "ipFamily");
    }
}

fn require_single_stack(errors: &mut ErrorList, service: &Value, what: &str) {
    let policy = service.at("spec").at("ipFamilyPolicy");
    if policy != "SingleStack" {
        let root = Path::new("spec");
        let field_path = root.child("ipFamilyPolicy");
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.push(Error::invalid(&field_path, go_values::json_value(policy), detail));
    }
}
