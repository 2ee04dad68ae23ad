//! Validation of updates of a pod status.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    annotations, error_list::ErrorListExt, internal, options::PodValidationOptions,
    resources::quantity_or_zero, restart, security,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{
        AddressStrictness, parse_ip_sloppy, validate_dns1123_label, validate_dns1123_subdomain,
        validate_label_key, validate_legacy_ip,
    },
    strategy::{ErrorList, Tree},
};

/// The status lists, and the container list of each.
const STATUS_LISTS: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

const HEALTH_STATES: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
const MAX_MESSAGE_LENGTH: usize = 1024;
const NOT_NEGATIVE: &str = "must be a non-negative integer";

// upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate
pub(super) fn validate_pod_status_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let options = PodValidationOptions::for_pod_update(old);
    let metadata_at = Path::new("metadata");
    annotations::validate_annotation_update(new, old, &options, &metadata_at.child("annotations"), errors);
    let at = Path::new("status");
    let status = new.at("status");
    let before = old.at("status");
    let spec = new.at("spec");
    validate_pod_conditions(status.items("conditions"), &at.child("conditions"), errors);
    validate_nominated_node_name(
        status,
        before,
        old.at("spec"),
        &at.child("nominatedNodeName"),
        errors,
    );
    if let Some(generation) = status.int("observedGeneration").filter(|number| *number < 0) {
        errors.invalid(&at.child("observedGeneration"), generation, NOT_NEGATIVE);
    }
    if status.at("qosClass") != before.at("qosClass") {
        errors.invalid(
            &at.child("qosClass"),
            status.text("qosClass"),
            "field is immutable",
        );
    }
    for (list, containers) in STATUS_LISTS {
        let new = status.items(list);
        let old_list = before.items(list);
        validate_state_transitions(new, old_list, old.at("spec"), containers, &at.child(list), errors);
    }
    validate_resource_claim_statuses(status, spec, &at.child("resourceClaimStatuses"), errors);
    validate_extended_resource_claim_status(status, spec, &at.child("extendedResourceClaimStatus"), errors);
    validate_pod_ips(status, before, &at, errors);
    validate_host_ips(status, before, &at.child("hostIPs"), errors);
    let os = spec.at("os");
    for (list, _) in STATUS_LISTS {
        validate_container_status_users(status.items(list), os, &at.child(list), errors);
    }
    for (list, containers) in STATUS_LISTS {
        validate_allocated_resources_status(status, list, spec.items(containers), &at.child(list), errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodConditions
fn validate_pod_conditions(conditions: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        if let Some(generation) = condition.int("observedGeneration").filter(|number| *number < 0) {
            errors.invalid(&field_path.child("observedGeneration"), generation, NOT_NEGATIVE);
        }
        let ty = condition.text("type");
        if !matches!(ty, "PodScheduled" | "Ready" | "Initialized") {
            errors.push_invalid(&field_path.child("Type"), ty, validate_label_key(ty));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodStatusUpdate
fn validate_nominated_node_name(
    status: &Value,
    before: &Value,
    old_spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let node = status.text("nominatedNodeName");
    if node.is_empty() || node == before.text("nominatedNodeName") {
        return;
    }
    errors.push_invalid(at, node, validate_dns1123_subdomain(node));
    if !old_spec.text("nodeName").is_empty() {
        errors.forbidden(at, "may not be set on pods that are already bound to a node");
    }
}

/// A container that terminated for good cannot run again.
// upstream: pkg/apis/core/validation/validation.go ValidateContainerStateTransition, ValidateInitContainerStateTransition
fn validate_state_transitions(
    new: &[Value],
    old: &[Value],
    spec: &Value,
    containers: &str,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let ephemeral = containers == "ephemeralContainers";
    if !ephemeral && restart::may_restart_all(spec) {
        return;
    }
    let alive: HashSet<&str> = new
        .iter()
        .filter(|after| !after.at("state").has("terminated"))
        .map(|after| after.text("name"))
        .collect();
    let by_name = by_name(spec.items(containers));
    for (index, before) in old.iter().enumerate() {
        let ended = before.at("state").at("terminated");
        if ended.is_null() {
            continue;
        }
        let name = before.text("name");
        let revived = alive.contains(name);
        let allowed = !ephemeral
            && by_name
                .get(name)
                .is_some_and(|container| restart::restarts(container, spec, ended.int_or_zero("exitCode")));
        if revived && !allowed {
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&at.index(index).child("state"), detail);
        }
    }
}

/// The items of a list by name; of several with one name, the first.
fn by_name(items: &[Value]) -> HashMap<&str, &Value> {
    let mut named = HashMap::with_capacity(items.len());
    for item in items {
        named.entry(item.text("name")).or_insert(item);
    }
    named
}

// upstream: pkg/apis/core/validation/validation.go validatePodResourceClaimStatuses
fn validate_resource_claim_statuses(status: &Value, spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let statuses = status.items("resourceClaimStatuses");
    let repeated = field_checks::duplicate_flags(statuses.iter().map(|status| status.text("name")));
    let spec_claims = by_name(spec.items("resourceClaims"));
    for (index, claim) in statuses.iter().enumerate() {
        let field_path = at.index(index);
        let name = claim.text("name");
        if !spec_claims.contains_key(name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&field_path.child("name"), name, detail);
        }
        if repeated[index] {
            errors.duplicate(&field_path.child("name"), name);
        }
        if let Some(claim) = claim.at("resourceClaimName").as_str() {
            errors.push_invalid(
                &field_path.child("resourceClaimName"),
                claim,
                validate_dns1123_subdomain(claim),
            );
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodExtendedResourceClaimStatus
fn validate_extended_resource_claim_status(
    status: &Value,
    spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let claim = status.at("extendedResourceClaimStatus");
    if claim.is_null() {
        return;
    }
    let list_at = at.child("requestMappings");
    let mappings = claim.items("requestMappings");
    if mappings.is_empty() {
        errors.required(&list_at, "at least one request mapping is required");
    }
    let repeated = field_checks::duplicate_flags(mappings);
    let mut containers = by_name(spec.items("initContainers"));
    containers.extend(by_name(spec.items("containers")));
    for (index, mapping) in mappings.iter().enumerate() {
        let field_path = list_at.index(index);
        let container = mapping.text("containerName");
        let resource = mapping.text("resourceName");
        let request = mapping.text("requestName");
        match containers.get(container) {
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&field_path.child("containerName"), container, detail);
            }
            Some(container) if !container.at_path("resources.requests").has(resource) => {
                let detail = "must match the extended resource name of an entry in \
                     spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&field_path.child("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        errors.push_invalid(&at.child("requestName"), request, validate_dns1123_label(request));
        if repeated[index] {
            errors.duplicate(&field_path.child("containerName"), container);
            errors.duplicate(&field_path.child("resourceName"), resource);
            errors.duplicate(&field_path.child("requestName"), request);
        }
    }
    match claim.text("resourceClaimName") {
        "" => errors.required(&at.child("resourceClaimName"), ""),
        name => errors.push_invalid(
            &at.child("resourceClaimName"),
            name,
            validate_dns1123_subdomain(name),
        ),
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodIPs
fn validate_pod_ips(status: &Value, before: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let pod_ip = status.text("podIP");
    let all = status.items("podIPs");
    let list_at = at.child("podIPs");
    validate_ips(all, before.items("podIPs"), "PodIP", &list_at, errors);
    match all.first().map(|address| address.text("ip")) {
        first if first.is_some() == pod_ip.is_empty() => {
            let detail = "podIP and podIPs must either both be set or both be unset";
            errors.invalid(&list_at, internal::internal_list_value("PodIP", all), detail);
        }
        Some(first) if first != pod_ip => {
            errors.invalid(&list_at.index(0).child("ip"), first, "must be equal to `podIP`");
        }
        _ => {}
    }
}

// upstream: pkg/apis/core/validation/validation.go validateHostIPs
fn validate_host_ips(status: &Value, before: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = status.items("hostIPs");
    let Some(first) = all.first().map(|address| address.text("ip")) else {
        return;
    };
    if first != status.text("hostIP") {
        errors.invalid(&at.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    validate_ips(all, before.items("hostIPs"), "HostIP", at, errors);
}

/// Each address must be valid or an old one; of two there is one per family.
// upstream: pkg/apis/core/validation/validation.go validatePodIPs, validateHostIPs
fn validate_ips(all: &[Value], old: &[Value], ty: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let old: HashSet<&str> = old.iter().map(|address| address.text("ip")).collect();
    for (index, address) in all.iter().enumerate() {
        let ip = address.text("ip");
        if !old.contains(ip) {
            errors.extend(validate_legacy_ip(
                &at.index(index),
                ip,
                AddressStrictness::Strict,
                &[],
            ));
        }
    }
    if all.len() < 2 {
        return;
    }
    let families: Vec<_> = all
        .iter()
        .map(|address| parse_ip_sloppy(address.text("ip")).map(|ip| ip.is_ipv6()))
        .collect();
    if let Some(index) = families.iter().position(Option::is_none) {
        let text = all[index].text("ip");
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {text}");
        errors.push(Error::internal(at, detail));
    }
    let both = !families.contains(&None) && families.contains(&Some(true)) && families.contains(&Some(false));
    if !both || all.len() > 2 {
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(at, internal::internal_list_value(ty, all), detail);
    }
}

// upstream: pkg/apis/core/validation/validation.go validateContainerStatusUsers
fn validate_container_status_users(statuses: &[Value], os: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    for (index, status) in statuses.iter().enumerate() {
        let user = status.at("user").at("linux");
        if user.is_null() {
            continue;
        }
        let item_at = at.index(index);
        let user_at = item_at.child("user");
        let field_path = user_at.child("linux");
        match os.text("name") {
            "windows" => {
                errors.forbidden(&field_path, "cannot be set for a windows pod");
                continue;
            }
            "linux" | "" => {}
            _ => continue,
        }
        let number = user.int_or_zero("uid");
        if !(0..=i64::from(u32::MAX)).contains(&number) {
            let detail = format!("must be between 0 and {}, inclusive", u32::MAX);
            errors.invalid(&field_path.child("uid"), number, detail);
        }
        security::validate_id(user.at("gid"), &field_path.child("gid"), errors);
        let groups_at = field_path.child("supplementalGroups");
        for (number, group) in user.items("supplementalGroups").iter().enumerate() {
            security::validate_id(group, &groups_at.index(number), errors);
        }
    }
}

/// allocatedResourcesStatus must be of resources that the container requests.
// upstream: pkg/apis/core/validation/validation.go validateContainerStatusAllocatedResourcesStatus
fn validate_allocated_resources_status(
    status: &Value,
    list: &str,
    containers: &[Value],
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let by_name = by_name(containers);
    let mappings = extended_resource_mappings(status);
    for (index, messages) in status.items(list).iter().enumerate() {
        let resources = messages.items("allocatedResourcesStatus");
        if resources.is_empty() {
            continue;
        }
        let item_at = at.index(index);
        let list_at = item_at.child("allocatedResourcesStatus");
        if list == "ephemeralContainerStatuses" {
            errors.forbidden(&list_at, "must not be specified in container status");
            continue;
        }
        let container = by_name.get(messages.text("name")).copied();
        let claimed = container.map(container_claims).unwrap_or_default();
        for (number, resource) in resources.iter().enumerate() {
            let field_path = list_at.index(number);
            let name = resource.text("name");
            if let Some(detail) = container
                .and_then(|container| unrequested_resource_error(name, container, &claimed, &mappings))
            {
                errors.invalid(&field_path.child("name"), name, detail);
            }
            validate_device_health(
                resource.items("resources"),
                &field_path.child("resources"),
                errors,
            );
        }
    }
}

/// Why a resource is not requested by the container, if it is not.
fn unrequested_resource_error(
    name: &str,
    container: &Value,
    claimed: &HashSet<String>,
    mappings: &HashMap<(&str, String), Vec<&str>>,
) -> Option<&'static str> {
    let requirements = container.at("resources");
    let Some(claim) = name.strip_prefix("claim:") else {
        let is_requested = requirements.at("requests").has(name);
        return (!is_requested).then_some("must match one of the container's resource requests");
    };
    let by_claim = claimed.contains(claim);
    let resources = mappings.get(&(container.text("name"), claim.to_owned()));
    let by_extended = resources.is_some_and(|resources| {
        let mut resources = resources.iter();
        resources.any(|resource| !quantity_or_zero(requirements.at("requests").at(resource)).is_zero())
    });
    (!by_claim && !by_extended).then_some(
        "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when \
         container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
    )
}

/// The claims of a container: `claim`, or `claim/request`.
fn container_claims(container: &Value) -> HashSet<String> {
    let claims = container.at("resources").items("claims").iter();
    claims
        .map(|claim| match claim.text("request") {
            "" => claim.text("name").to_owned(),
            request => format!("{}/{request}", claim.text("name")),
        })
        .collect()
}

/// The resources of the extended resource claim, by container and `claim/request`.
// upstream: pkg/apis/core/validation/validation.go matchesExtendedResourceClaimStatus
fn extended_resource_mappings(status: &Value) -> HashMap<(&str, String), Vec<&str>> {
    let extended = status.at("extendedResourceClaimStatus");
    let mut mappings: HashMap<_, Vec<_>> = HashMap::new();
    for mapping in extended.items("requestMappings") {
        let request = mapping.text("requestName");
        if !request.is_empty() {
            let claim = format!("{}/{request}", extended.text("resourceClaimName"));
            let resources = mappings
                .entry((mapping.text("containerName"), claim))
                .or_default();
            resources.push(mapping.text("resourceName"));
        }
    }
    mappings
}

fn validate_device_health(devices: &[Value], at: &Path<'_>, errors: &mut ErrorList) {
    let repeated = field_checks::duplicate_flags(devices.iter().map(|device| device.text("resourceID")));
    for (index, device) in devices.iter().enumerate() {
        let field_path = at.index(index);
        let health = device.text("health");
        if !HEALTH_STATES.contains(&health) {
            errors.unsupported(&field_path.child("health"), health, &HEALTH_STATES);
        }
        if let Some(message) = device.at("message").as_str() {
            if message.is_empty() {
                errors.required(&field_path.child("message"), "must be non-empty if specified");
            } else if message.len() > MAX_MESSAGE_LENGTH {
                errors.push(Error::too_long(&field_path.child("message"), MAX_MESSAGE_LENGTH));
            }
        }
        let id = device.text("resourceID");
        if repeated[index] {
            errors.duplicate(&field_path.child("resourceID"), id);
        }
    }
}
