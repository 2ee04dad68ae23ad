//! What may change in a service, and what goes with a change of its type.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, is_externally_accessible, is_headless, judgement, kind,
    needs_health_check,
};
use crate::{
    field::{Error, Path},
    kinds::go_values,
    strategy::{ErrorList, Tree, TreeMut},
};

const SET_ONCE: &str = "may not change once set";

/// Takes out what the new type has no use for, if the user did not also change it: the server may have put it there.
pub(super) fn drop_what_no_longer_applies(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let old_kind = kind(old);
    let new_kind = kind(new).to_owned();
    let unchanged = |new: &Value, name: &str| new.at("spec").at(name) == before.at(name);
    let mut gone = Vec::new();
    if old_kind != EXTERNAL_NAME && new_kind == EXTERNAL_NAME {
        if unchanged(new, "clusterIP") && unchanged(new, "clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(
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
        gone.push("healthCheckNodePort");
    }
    if old_kind == LOAD_BALANCER && new_kind != LOAD_BALANCER {
        gone.extend(
            ["allocateLoadBalancerNodePorts", "loadBalancerClass"]
                .iter()
                .filter(|name| unchanged(new, name)),
        );
    }
    if is_externally_accessible(before)
        && !is_externally_accessible(new.at("spec"))
        && unchanged(new, "externalTrafficPolicy")
    {
        gone.push("externalTrafficPolicy");
    }
    for name in gone {
        new.ensure_object("spec").remove(name);
    }
    if new_kind != LOAD_BALANCER && new.at("status").has("loadBalancer") {
        new.ensure_object("status")
            .set("loadBalancer", Value::Object(serde_json::Map::new()));
    }
}

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

/// What is wrong with a change.
pub(super) fn judge(errors: &mut ErrorList, new: &Value, old: &Value) {
    if kind(new) != EXTERNAL_NAME && kind(old) != EXTERNAL_NAME {
        addresses(errors, new, old);
        families(errors, new, old);
    }
    let root = Path::new("spec");
    let spec = new.at("spec");
    let before = old.at("spec");
    let class = "loadBalancerClass";
    if kind(new) == LOAD_BALANCER && kind(old) == LOAD_BALANCER && spec.at(class) != before.at(class) {
        let shown = go_values::json_value(spec.at(class));
        errors.push(Error::invalid(&root.child(class), shown, SET_ONCE));
    }
    judgement::balancer_class(errors, spec);
    let port = "healthCheckNodePort";
    if needs_health_check(old) && needs_health_check(new) && spec.int(port) != before.int(port) {
        errors.push(Error::forbidden(&root.child(port), "field is immutable"));
    }
}

/// The first address stays for good; the second one comes and goes, and goes only when the policy says so.
fn addresses(errors: &mut ErrorList, new: &Value, old: &Value) {
    if is_headless(new) && is_headless(old) {
        return;
    }
    let root = Path::new("spec");
    let field_path = root.child("clusterIPs");
    let list = new.at("spec").at("clusterIPs");
    let before = old.at("spec").items("clusterIPs");
    let now = new.at("spec").items("clusterIPs");
    let shown = || go_values::json_value(list);
    if now.len() == before.len() {
        for (index, (ip, kept)) in now.iter().zip(before).enumerate() {
            if ip != kept {
                errors.push(Error::invalid(&field_path.index(index), shown(), SET_ONCE));
            }
        }
        return;
    }
    if now.is_empty() {
        let detail = "primary clusterIP can not be unset";
        errors.push(Error::invalid(&field_path.index(0), shown(), detail));
    }
    if let (Some(ip), Some(kept)) = (now.first(), before.first())
        && ip != kept
    {
        errors.push(Error::invalid(&field_path.index(0), shown(), SET_ONCE));
    }
    if now.len() < before.len() && now.len() == 1 {
        must_be_single(errors, new, "clusterIP");
    }
}

/// The same for the families of the addresses.
fn families(errors: &mut ErrorList, new: &Value, old: &Value) {
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
        for (family, kept) in now.iter().zip(before) {
            if family != kept {
                let shown = go_values::json_value(spec.at("ipFamilies"));
                errors.push(Error::invalid(&field_path, shown, SET_ONCE));
            }
        }
        return;
    }
    let fewer = now.len() < before.len();
    if fewer && spec.items("clusterIPs").is_empty() {
        let shown = go_values::json_value(spec.at("ipFamilies"));
        let detail = "primary ipFamily can not be unset";
        errors.push(Error::invalid(&field_path, shown, detail));
    }
    if let (Some(family), Some(kept)) = (now.first(), before.first())
        && family != kept
    {
        let shown = go_values::json_value(spec.at("clusterIPs"));
        errors.push(Error::invalid(&field_path, shown, SET_ONCE));
    }
    if fewer && now.len() == 1 {
        must_be_single(errors, new, "ipFamily");
    }
}

fn must_be_single(errors: &mut ErrorList, service: &Value, what: &str) {
    let policy = service.at("spec").at("ipFamilyPolicy");
    if policy != "SingleStack" {
        let root = Path::new("spec");
        let field_path = root.child("ipFamilyPolicy");
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
        errors.push(Error::invalid(&field_path, go_values::json_value(policy), detail));
    }
}
