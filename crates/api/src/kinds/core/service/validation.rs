//! Validation of services.

use std::collections::HashSet;

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, NONE, SOURCE_RANGES, TOPOLOGY_HINTS, TOPOLOGY_MODE,
    cluster_ips, is_headless, kind, policy,
};
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{
        core::endpoint_ip::validate_endpoint_ip,
        field_checks::{self, push_invalid, validate_enum, validate_port_number, validate_protocol},
        go_values,
    },
    name::{self, AddressStrictness},
    strategy::{ErrorList, Tree},
};

const MAX_AFFINITY_SECONDS: i64 = 86400;
const ONLY_FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Validates a service on create and update. Invalid values that the old one has are tolerated where rules were looser before.
// upstream: pkg/apis/core/validation/validation.go validateService
pub(super) fn validate_service(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    let spec = service.at("spec");
    let root = Path::new("spec");
    validate_topology_annotations(errors, service);
    let ports = spec.items("ports");
    if ports.is_empty() && !is_headless(service) && kind(service) != EXTERNAL_NAME {
        errors.push(Error::required(&root.child("ports"), ""));
    }
    validate_by_type(errors, service);
    let field_path = root.child("ports");
    let mut names = BTreeSet::new();
    for (index, item) in ports.iter().enumerate() {
        validate_service_port(errors, &field_path.index(index), item, ports.len(), &mut names);
    }
    errors.extend(name::validate_labels(
        &root.child("selector"),
        spec.entries("selector"),
    ));
    validate_session_affinity(errors, spec);
    cluster_ips::validate_cluster_ips(errors, service, old);
    validate_external_ips(errors, spec, old);
    validate_enum(
        kind(service),
        &[CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT],
        &root.child("type"),
        errors,
    );
    validate_port_conflicts(errors, service);
    validate_source_ranges(errors, service, old);
    let allocates = spec.has("allocateLoadBalancerNodePorts");
    if allocates && kind(service) != LOAD_BALANCER {
        let field_path = root.child("allocateLoadBalancerNodePorts");
        errors.push(Error::forbidden(&field_path, ONLY_FOR_LOAD_BALANCERS));
    }
    if !allocates && kind(service) == LOAD_BALANCER {
        errors.push(Error::required(&Path::new("allocateLoadBalancerNodePorts"), ""));
    }
    validate_load_balancer_class(errors, spec);
    policy::validate_traffic_policies(errors, service);
}

// upstream: pkg/apis/core/validation/validation.go validateService
fn validate_topology_annotations(errors: &mut ErrorList, service: &Value) {
    let annotations = service.at("metadata").at("annotations");
    let mode = annotations.at(TOPOLOGY_MODE);
    let hints = annotations.at(TOPOLOGY_HINTS);
    if !mode.is_null() && !hints.is_null() && mode != hints {
        let metadata = Path::new("metadata");
        let field_path = metadata.child("annotations");
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(Error::invalid(
            &field_path.key(TOPOLOGY_MODE),
            mode.clone(),
            detail,
        ));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateService
fn validate_by_type(errors: &mut ErrorList, service: &Value) {
    let spec = service.at("spec");
    let root = Path::new("spec");
    match kind(service) {
        ty @ (LOAD_BALANCER | NODE_PORT) if is_headless(service) => {
            let field_path = root.child("clusterIPs");
            let detail = format!("may not be set to 'None' for {ty} services");
            errors.push(Error::invalid(&field_path.index(0), NONE, detail));
        }
        EXTERNAL_NAME => {
            for (name, set) in [
                ("clusterIPs", !spec.items("clusterIPs").is_empty()),
                ("ipFamilies", !spec.items("ipFamilies").is_empty()),
                ("ipFamilyPolicy", spec.has("ipFamilyPolicy")),
            ] {
                if set {
                    let detail = "may not be set for ExternalName services";
                    errors.push(Error::forbidden(&root.child(name), detail));
                }
            }
            let field_path = root.child("externalName");
            let name = spec.text("externalName");
            match name.strip_suffix('.').unwrap_or(name) {
                "" => errors.push(Error::required(&field_path, "")),
                name => push_invalid(name, name::validate_dns1123_subdomain(name), &field_path, errors),
            }
        }
        _ => {}
    }
}

// upstream: pkg/apis/core/validation/validation.go validateServicePort
/// A port among `count` ports: several have names.
fn validate_service_port<'v>(
    errors: &mut ErrorList,
    at: &Path<'_>,
    port: &'v Value,
    count: usize,
    names: &mut BTreeSet<&'v str>,
) {
    let field_path = at.child("name");
    let name = port.text("name");
    if !name.is_empty() {
        push_invalid(name, name::validate_dns1123_label(name), &field_path, errors);
        if !names.insert(name) {
            errors.push(Error::duplicate(&field_path, name));
        }
    } else if count > 1 {
        errors.push(Error::required(&field_path, ""));
    }
    validate_port_number(port.int_or_zero("port"), &at.child("port"), errors);
    validate_protocol(port.text("protocol"), &at.child("protocol"), errors);
    let field_path = at.child("targetPort");
    match port.at("targetPort") {
        Value::String(name) => push_invalid(name, name::validate_port_name(name), &field_path, errors),
        number => validate_port_number(number.as_i64().unwrap_or_default(), &field_path, errors),
    }
    if let Some(protocol) = port.at("appProtocol").as_str() {
        push_invalid(
            protocol,
            name::validate_label_key(protocol),
            &at.child("appProtocol"),
            errors,
        );
    }
}

// upstream: pkg/apis/core/validation/validation.go validateService, validateClientIPAffinityConfig
fn validate_session_affinity(errors: &mut ErrorList, spec: &Value) {
    let root = Path::new("spec");
    let affinity = spec.text("sessionAffinity");
    validate_enum(
        affinity,
        &["ClientIP", "None"],
        &root.child("sessionAffinity"),
        errors,
    );
    let field_path = root.child("sessionAffinityConfig");
    let config = spec.at("sessionAffinityConfig");
    if affinity == "None" && !config.is_null() {
        let detail = "must not be set when session affinity is None";
        errors.push(Error::forbidden(&field_path, detail));
    }
    if affinity != "ClientIP" {
        return;
    }
    let detail = "when session affinity type is ClientIP";
    let client = field_path.child("clientIP");
    let timeout = client.child("timeoutSeconds");
    let seconds = config.at("clientIP").at("timeoutSeconds");
    if config.is_null() {
        errors.push(Error::required(&field_path, detail));
    } else if !config.has("clientIP") {
        errors.push(Error::required(&client, detail));
    } else if seconds.is_null() {
        errors.push(Error::required(&timeout, detail));
    } else if !(1..=MAX_AFFINITY_SECONDS).contains(&seconds.as_i64().unwrap_or_default()) {
        let detail = format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}");
        errors.push(Error::invalid(&timeout, seconds.clone(), detail));
    }
}

// upstream: pkg/apis/core/validation/validation.go validateService
fn validate_external_ips(errors: &mut ErrorList, spec: &Value, old: Option<&Value>) {
    let root = Path::new("spec");
    let field_path = root.child("externalIPs");
    let old_ips: HashSet<_> = old
        .into_iter()
        .flat_map(|old| old.at("spec").texts("externalIPs"))
        .collect();
    for (index, ip) in spec.texts("externalIPs").enumerate() {
        let field_path = field_path.index(index);
        let msgs = if old_ips.contains(ip) {
            Vec::new()
        } else {
            name::validate_legacy_ip(&field_path, ip, AddressStrictness::Strict, &[])
        };
        if msgs.is_empty() {
            validate_endpoint_ip(errors, &field_path, ip);
        }
        errors.extend(msgs);
    }
}

/// Rejects ports of ExternalName services, node ports of ClusterIP services, and duplicate ports.
// upstream: pkg/apis/core/validation/validation.go validateService
fn validate_port_conflicts(errors: &mut ErrorList, service: &Value) {
    let root = Path::new("spec");
    let root = root.child("ports");
    let ports = service.at("spec").items("ports");
    let number = |port: &Value, name: &str| port.int_or_zero(name);
    if kind(service) == CLUSTER_IP {
        for (index, port) in ports.iter().enumerate() {
            if number(port, "nodePort") != 0 {
                let field_path = root.index(index);
                let detail = "may not be used when `type` is 'ClusterIP'";
                errors.push(Error::forbidden(&field_path.child("nodePort"), detail));
            }
        }
    }
    let repeated = |name: &str| {
        let key = |port| (number(port, name), port.text("protocol"));
        field_checks::duplicate_flags(ports.iter().map(key))
    };
    let repeats = repeated("nodePort");
    for (index, port) in ports.iter().enumerate() {
        let node_port = number(port, "nodePort");
        if node_port != 0 && repeats[index] {
            let field_path = root.index(index);
            errors.push(Error::duplicate(&field_path.child("nodePort"), node_port));
        }
    }
    let repeats = repeated("port");
    for (index, port) in ports.iter().enumerate() {
        if repeats[index] {
            let port_value = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                go::json_string(port.text("protocol")),
                number(port, "port")
            );
            errors.push(Error::duplicate(
                &root.index(index),
                BadValue::Printed(port_value),
            ));
        }
    }
}

/// Validates loadBalancerSourceRanges, in the field or in the legacy annotation.
// upstream: pkg/apis/core/validation/validation.go validateService
fn validate_source_ranges(errors: &mut ErrorList, service: &Value, old: Option<&Value>) {
    let spec = service.at("spec");
    let validate_range = |errors: &mut ErrorList, field_path: &Path<'_>, text: &str| {
        errors.extend(name::validate_legacy_cidr(
            field_path,
            text.trim(),
            AddressStrictness::Strict,
            &[],
        ));
    };
    if !spec.items("loadBalancerSourceRanges").is_empty() {
        let root = Path::new("spec");
        let field_path = root.child("LoadBalancerSourceRanges");
        if kind(service) != LOAD_BALANCER {
            errors.push(Error::forbidden(&field_path, ONLY_FOR_LOAD_BALANCERS));
        }
        let old_ranges: HashSet<_> = old
            .into_iter()
            .flat_map(|old| old.at("spec").texts("loadBalancerSourceRanges"))
            .map(str::trim)
            .collect();
        for (index, text) in spec.texts("loadBalancerSourceRanges").enumerate() {
            if !old_ranges.contains(text.trim()) {
                validate_range(errors, &field_path.index(index), text);
            }
        }
        return;
    }
    let annotation = |service: &'_ Value| -> Option<String> {
        let annotations = service.at("metadata").at("annotations");
        annotations.at(SOURCE_RANGES).as_str().map(str::to_owned)
    };
    let Some(text) = annotation(service) else {
        return;
    };
    let metadata = Path::new("metadata");
    let field_path = metadata.child("annotations");
    let field_path = field_path.key(SOURCE_RANGES);
    if kind(service) != LOAD_BALANCER {
        errors.push(Error::forbidden(&field_path, ONLY_FOR_LOAD_BALANCERS));
    }
    let changed = old.is_none_or(|old| annotation(old).unwrap_or_default() != text);
    if changed && !text.trim().is_empty() {
        for part in text.trim().split(',') {
            validate_range(errors, &field_path, part);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateLoadBalancerClassField
pub(super) fn validate_load_balancer_class(errors: &mut ErrorList, spec: &Value) {
    let Some(class) = spec.at("loadBalancerClass").as_str() else {
        return;
    };
    let root = Path::new("spec");
    let field_path = root.child("loadBalancerClass");
    if spec.text("type") == LOAD_BALANCER {
        push_invalid(class, name::validate_label_key(class), &field_path, errors);
    } else {
        errors.push(Error::forbidden(&field_path, ONLY_FOR_LOAD_BALANCERS));
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidateLoadBalancerStatus
pub(super) fn validate_load_balancer_status(errors: &mut ErrorList, service: &Value, old: &Value) {
    let status = Path::new("status");
    let balancer = status.child("loadBalancer");
    let root = balancer.child("ingress");
    let list = |service: &'_ Value| service.at_path("status.loadBalancer").items("ingress").to_vec();
    let ingress = list(service);
    let before = list(old);
    if kind(service) != LOAD_BALANCER && !ingress.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(Error::forbidden(&root, detail));
        return;
    }
    let old_ips: HashSet<_> = before
        .iter()
        .map(|one| one.text("ip"))
        .filter(|ip| !ip.is_empty())
        .collect();
    for (index, point) in ingress.iter().enumerate() {
        let field_path = root.index(index);
        let ip = point.text("ip");
        if !ip.is_empty() && !old_ips.contains(ip) {
            errors.extend(name::validate_legacy_ip(
                &field_path.child("ip"),
                ip,
                AddressStrictness::Strict,
                &[],
            ));
        }
        let mode_path = field_path.child("ipMode");
        match point.at("ipMode").as_str() {
            None if ip.is_empty() => {}
            None => errors.push(Error::required(&mode_path, "must be specified when `ip` is set")),
            Some(_) if ip.is_empty() => {
                let detail = "may not be specified when `ip` is not set";
                errors.push(Error::forbidden(&mode_path, detail));
            }
            Some("Proxy" | "VIP") => {}
            Some(mode) => {
                let mode_value = go_values::typed_string(mode);
                errors.push(Error::not_supported(&mode_path, mode_value, ["Proxy", "VIP"]));
            }
        }
        let field_path = field_path.child("hostname");
        let host = point.text("hostname");
        if !host.is_empty() {
            push_invalid(host, name::validate_dns1123_subdomain(host), &field_path, errors);
            if name::parse_ip_sloppy(host).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(Error::invalid(&field_path, host, detail));
            }
        }
    }
}
