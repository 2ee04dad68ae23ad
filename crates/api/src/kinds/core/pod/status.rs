//! What is wrong with a change of the status of a pod.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{
    annotations, internal, options::Options, report::Report, resources::quantity_or_zero, restart, security,
};
use crate::{
    field::{Error, Path},
    kinds::field_checks,
    name::{Strictness, dns1123_label, dns1123_subdomain, label_key, legacy_ip, parse_ip_sloppy},
    rules::{Errors, Tree},
};

/// The status of each sort of containers, and where their specs stand.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

const HEALTHS: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
const LONGEST_MESSAGE: usize = 1024;
const NOT_NEGATIVE: &str = "must be a non-negative integer";

/// What is wrong with a change of the status.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut Errors) {
    let options = Options::pod_update(old);
    let metadata_at = Path::new("metadata");
    annotations::validate_update(new, old, &options, &metadata_at.child("annotations"), errors);
    let at = Path::new("status");
    let status = new.at("status");
    let before = old.at("status");
    let spec = new.at("spec");
    conditions(status.items("conditions"), &at.child("conditions"), errors);
    nominated_node(
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
    for (list, containers) in STATUSES {
        let new = status.items(list);
        let old_list = before.items(list);
        restarts(new, old_list, old.at("spec"), containers, &at.child(list), errors);
    }
    claims(status, spec, &at.child("resourceClaimStatuses"), errors);
    extended_claim(status, spec, &at.child("extendedResourceClaimStatus"), errors);
    pod_addresses(status, before, &at, errors);
    host_addresses(status, before, &at.child("hostIPs"), errors);
    let os = spec.at("os");
    for (list, _) in STATUSES {
        users(status.items(list), os, &at.child(list), errors);
    }
    for (list, containers) in STATUSES {
        allocated(status, list, spec.items(containers), &at.child(list), errors);
    }
}

fn conditions(conditions: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (index, condition) in conditions.iter().enumerate() {
        let field_path = at.index(index);
        if let Some(generation) = condition.int("observedGeneration").filter(|number| *number < 0) {
            errors.invalid(&field_path.child("observedGeneration"), generation, NOT_NEGATIVE);
        }
        let ty = condition.text("type");
        if !matches!(ty, "PodScheduled" | "Ready" | "Initialized") {
            errors.push_invalid(&field_path.child("Type"), ty, label_key(ty));
        }
    }
}

fn nominated_node(status: &Value, before: &Value, old_spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let node = status.text("nominatedNodeName");
    if node.is_empty() || node == before.text("nominatedNodeName") {
        return;
    }
    errors.push_invalid(at, node, dns1123_subdomain(node));
    if !old_spec.text("nodeName").is_empty() {
        errors.forbidden(at, "may not be set on pods that are already bound to a node");
    }
}

/// A container that ended for good cannot run again.
fn restarts(
    new: &[Value],
    old: &[Value],
    spec: &Value,
    containers: &str,
    at: &Path<'_>,
    errors: &mut Errors,
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
            && by_name.get(name).is_some_and(|container| {
                restart::restarts(container, spec, ended.int("exitCode").unwrap_or_default())
            });
        if revived && !allowed {
            let detail = "may not be transitioned to non-terminated state";
            errors.forbidden(&at.index(index).child("state"), detail);
        }
    }
}

/// The items of a list by name; of several by one name, the first.
fn by_name(items: &[Value]) -> HashMap<&str, &Value> {
    let mut named = HashMap::with_capacity(items.len());
    for item in items {
        named.entry(item.text("name")).or_insert(item);
    }
    named
}

fn claims(status: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let statuses = status.items("resourceClaimStatuses");
    let repeated = field_checks::duplicate_flags(statuses.iter().map(|status| status.text("name")));
    let known = by_name(spec.items("resourceClaims"));
    for (index, claim) in statuses.iter().enumerate() {
        let field_path = at.index(index);
        let name = claim.text("name");
        if !known.contains_key(name) {
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
                dns1123_subdomain(claim),
            );
        }
    }
}

fn extended_claim(status: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
            Some(found) if !found.way("resources.requests").has(resource) => {
                let detail = "must match the extended resource name of an entry in \
                     spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&field_path.child("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        errors.push_invalid(&at.child("requestName"), request, dns1123_label(request));
        if repeated[index] {
            errors.duplicate(&field_path.child("containerName"), container);
            errors.duplicate(&field_path.child("resourceName"), resource);
            errors.duplicate(&field_path.child("requestName"), request);
        }
    }
    match claim.text("resourceClaimName") {
        "" => errors.required(&at.child("resourceClaimName"), ""),
        name => errors.push_invalid(&at.child("resourceClaimName"), name, dns1123_subdomain(name)),
    }
}

fn pod_addresses(status: &Value, before: &Value, at: &Path<'_>, errors: &mut Errors) {
    let one = status.text("podIP");
    let all = status.items("podIPs");
    let list_at = at.child("podIPs");
    addresses(all, before.items("podIPs"), "PodIP", &list_at, errors);
    match all.first().map(|address| address.text("ip")) {
        first if first.is_some() == one.is_empty() => {
            let detail = "podIP and podIPs must either both be set or both be unset";
            errors.invalid(&list_at, internal::shown_list("PodIP", all), detail);
        }
        Some(first) if first != one => {
            errors.invalid(&list_at.index(0).child("ip"), first, "must be equal to `podIP`");
        }
        _ => {}
    }
}

fn host_addresses(status: &Value, before: &Value, at: &Path<'_>, errors: &mut Errors) {
    let all = status.items("hostIPs");
    let Some(first) = all.first().map(|address| address.text("ip")) else {
        return;
    };
    if first != status.text("hostIP") {
        errors.invalid(&at.index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    addresses(all, before.items("hostIPs"), "HostIP", at, errors);
}

/// Each address must be valid, or be an old one; of several there is one for each family.
fn addresses(all: &[Value], old: &[Value], ty: &str, at: &Path<'_>, errors: &mut Errors) {
    let old: HashSet<&str> = old.iter().map(|address| address.text("ip")).collect();
    for (index, address) in all.iter().enumerate() {
        let ip = address.text("ip");
        if !old.contains(ip) {
            errors.extend(legacy_ip(&at.index(index), ip, Strictness::Strict, &[]));
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
        errors.invalid(at, internal::shown_list(ty, all), detail);
    }
}

fn users(statuses: &[Value], os: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        let number = user.int("uid").unwrap_or_default();
        if !(0..=i64::from(u32::MAX)).contains(&number) {
            let detail = format!("must be between 0 and {}, inclusive", u32::MAX);
            errors.invalid(&field_path.child("uid"), number, detail);
        }
        security::id(user.at("gid"), &field_path.child("gid"), errors);
        let groups_at = field_path.child("supplementalGroups");
        for (number, group) in user.items("supplementalGroups").iter().enumerate() {
            security::id(group, &groups_at.index(number), errors);
        }
    }
}

/// What is told of the devices of a container must be of what it asked for.
fn allocated(status: &Value, list: &str, containers: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let by_name = by_name(containers);
    let mappings = claimed_by_mapping(status);
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
        let claimed = container.map(claimed_by).unwrap_or_default();
        for (number, resource) in resources.iter().enumerate() {
            let field_path = list_at.index(number);
            let name = resource.text("name");
            if let Some(detail) =
                container.and_then(|container| unasked(name, container, &claimed, &mappings))
            {
                errors.invalid(&field_path.child("name"), name, detail);
            }
            devices(
                resource.items("resources"),
                &field_path.child("resources"),
                errors,
            );
        }
    }
}

/// Why a resource is none the container asked for, if it is not.
fn unasked(
    name: &str,
    container: &Value,
    claimed: &HashSet<String>,
    mappings: &HashMap<(&str, String), Vec<&str>>,
) -> Option<&'static str> {
    let asked = container.at("resources");
    let Some(claim) = name.strip_prefix("claim:") else {
        let known = asked.at("requests").has(name);
        return (!known).then_some("must match one of the container's resource requests");
    };
    let by_claim = claimed.contains(claim);
    let resources = mappings.get(&(container.text("name"), claim.to_owned()));
    let by_extended = resources.is_some_and(|resources| {
        let mut resources = resources.iter();
        resources.any(|resource| !quantity_or_zero(asked.at("requests").at(resource)).is_zero())
    });
    (!by_claim && !by_extended).then_some(
        "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when \
         container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty",
    )
}

/// The claims of a container: `claim`, or `claim/request`.
fn claimed_by(container: &Value) -> HashSet<String> {
    let claims = container.at("resources").items("claims").iter();
    claims
        .map(|claim| match claim.text("request") {
            "" => claim.text("name").to_owned(),
            request => format!("{}/{request}", claim.text("name")),
        })
        .collect()
}

/// The resources that the claim for extended resources stands for, by container and `claim/request`.
fn claimed_by_mapping(status: &Value) -> HashMap<(&str, String), Vec<&str>> {
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

fn devices(devices: &[Value], at: &Path<'_>, errors: &mut Errors) {
    let repeated = field_checks::duplicate_flags(devices.iter().map(|device| device.text("resourceID")));
    for (index, device) in devices.iter().enumerate() {
        let field_path = at.index(index);
        let health = device.text("health");
        if !HEALTHS.contains(&health) {
            errors.unsupported(&field_path.child("health"), health, &HEALTHS);
        }
        if let Some(message) = device.at("message").as_str() {
            if message.is_empty() {
                errors.required(&field_path.child("message"), "must be non-empty if specified");
            } else if message.len() > LONGEST_MESSAGE {
                errors.push(Error::too_long(&field_path.child("message"), LONGEST_MESSAGE));
            }
        }
        let id = device.text("resourceID");
        if repeated[index] {
            errors.duplicate(&field_path.child("resourceID"), id);
        }
    }
}
