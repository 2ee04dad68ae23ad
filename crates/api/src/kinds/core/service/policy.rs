//! Traffic policies of a service, and warnings.

use serde_json::Value;

use super::{CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT, NONE, TOPOLOGY_HINTS, TOPOLOGY_MODE};
use super::{is_externally_accessible, kind, needs_health_check};
use crate::{
    field::{Error, Path},
    kinds::{
        field_checks::{validate_enum, validate_port_number},
        go_values::typed_string,
    },
    name,
    strategy::{ErrorList, Tree},
};

const POLICIES: [&str; 2] = ["Cluster", "Local"];
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

// upstream: pkg/apis/core/validation/validation.go validateServiceExternalTrafficPolicy, validateServiceInternalTrafficFieldsValue, validateServiceTrafficDistribution
pub(super) fn validate_traffic_policies(errors: &mut ErrorList, service: &Value) {
    let spec = service.at("spec");
    let root = Path::new("spec");
    let field_path = root.child("externalTrafficPolicy");
    let policy = spec.text("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        validate_enum(policy, &POLICIES, &field_path, errors);
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(Error::invalid(&field_path, typed_string(policy), detail));
    }
    let field_path = root.child("healthCheckNodePort");
    match (
        needs_health_check(service),
        spec.int_or_zero("healthCheckNodePort"),
    ) {
        (true, 0) => errors.push(Error::required(&field_path, "")),
        (true, number) => validate_port_number(number, &field_path, errors),
        (false, 0) => {}
        (false, number) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(&field_path, number, detail));
        }
    }
    let field_path = root.child("internalTrafficPolicy");
    match spec.at("internalTrafficPolicy").as_str() {
        None if matches!(kind(service), NODE_PORT | LOAD_BALANCER | CLUSTER_IP) => {
            errors.push(Error::required(&field_path, ""));
        }
        Some(policy) if !POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&field_path, typed_string(policy), POLICIES));
        }
        _ => {}
    }
    if let Some(distribution) = spec.at("trafficDistribution").as_str()
        && !DISTRIBUTIONS.contains(&distribution)
    {
        let field_path = root.child("trafficDistribution");
        errors.push(Error::not_supported(&field_path, distribution, DISTRIBUTIONS));
    }
}

// upstream: pkg/api/service/warnings.go GetWarningsForService
pub(super) fn get_warnings_for_service(service: &Value) -> Vec<String> {
    let spec = service.at("spec");
    let root = Path::new("spec");
    let mut warnings = Vec::new();
    if service.at("metadata").at("annotations").has(TOPOLOGY_HINTS) {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
        ));
    }
    let each_ip = |warnings: &mut Vec<String>, list: &str| {
        let field_path = root.child(list);
        for (index, ip) in spec.texts(list).enumerate() {
            warnings.extend(name::ip_warning(&field_path.index(index), ip));
        }
    };
    if !matches!(spec.text("clusterIP"), "" | NONE) {
        each_ip(&mut warnings, "clusterIPs");
    }
    let headless = kind(service) == CLUSTER_IP && spec.text("clusterIP") == NONE;
    let has_external = !spec.items("externalIPs").is_empty();
    let ignored = [
        ("spec.loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
        ("spec.externalIPs", has_external),
        ("spec.SessionAffinity", spec.text("sessionAffinity") != "None"),
    ];
    for (field, set) in ignored {
        if headless && set {
            warnings.push(format!("{field} is ignored for headless services"));
        }
    }
    each_ip(&mut warnings, "externalIPs");
    if has_external && !headless && kind(service) != EXTERNAL_NAME {
        let warning = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    let ip = spec.text("loadBalancerIP");
    if !ip.is_empty() {
        warnings.extend(name::ip_warning(&root.child("loadBalancerIP"), ip));
    }
    let field_path = root.child("loadBalancerSourceRanges");
    for (index, cidr) in spec.texts("loadBalancerSourceRanges").enumerate() {
        warnings.extend(name::cidr_warnings(&field_path.index(index), cidr));
    }
    if kind(service) == EXTERNAL_NAME {
        if has_external {
            warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
        }
    } else if !spec.text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let warning = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(warning.to_owned());
    }
    warnings
}
