//! Pod-level resources (KEP-2837).

use serde_json::Value;

use super::{
    error_list::ErrorListExt,
    options::{PodValidationOptions, containers},
    resources::{
        self, ResourceOwner, is_hugepages, is_overcommit_allowed, is_supported_pod_level_resource,
        quantity_or_zero, totals,
    },
};
use crate::{
    field::Path,
    strategy::{ErrorList, Tree, TreeMut},
};

/// Defaults the requests and limits of a pod that has some, from those of its containers.
// upstream: pkg/api/pod/util.go DefaultPodLevelResources, defaultPodLevelLimits, defaultPodLevelRequests
pub(super) fn default_pod_level_resources(spec: &mut Value) {
    let resources = spec.at("resources");
    if resources.entries("requests").is_empty() && resources.entries("limits").is_empty() {
        return;
    }
    let container_limits = totals(spec, "limits");
    let container_requests = totals(spec, "requests");
    let mut limits = resources.entries("limits").clone();
    let mut requests = resources.entries("requests").clone();
    for (name, total) in &container_limits {
        if is_hugepages(name) && !requests.contains_key(name) && !limits.contains_key(name) {
            limits.insert(name.clone(), total.to_string().into());
        }
    }
    for (name, total) in &container_requests {
        if is_supported_pod_level_resource(name)
            && is_overcommit_allowed(name)
            && !requests.contains_key(name)
        {
            requests.insert(name.clone(), total.to_string().into());
        }
    }
    for (name, limit) in &limits {
        if is_supported_pod_level_resource(name) && !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    // Where every container has a limit, so has the pod: the sum of theirs, or its request if that is greater.
    for (name, request_value) in &requests {
        if !is_supported_pod_level_resource(name)
            || limits.contains_key(name)
            || !containers(spec).all(|c| c.at("resources").at("limits").has(name))
        {
            continue;
        }
        let Some(total) = container_limits.get(name) else {
            continue;
        };
        let request = quantity_or_zero(request_value);
        let limit = if request > *total { &request } else { total };
        limits.insert(name.clone(), limit.to_string().into());
    }
    let whole = spec.ensure_object("resources");
    if !limits.is_empty() {
        whole.set("limits", limits);
    }
    if !requests.is_empty() {
        whole.set("requests", requests);
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodResources, validatePodResourceRequirements
pub(super) fn validate_pod_resources(
    spec: &Value,
    claims: &[&str],
    at: &Path<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let whole = spec.at("resources");
    if whole.is_null() {
        return;
    }
    if spec.at("os").text("name") == "windows" {
        return errors.forbidden(at, "may not be set for a windows pod");
    }
    if whole.has("claims") {
        errors.forbidden(
            &at.child("claims"),
            "claims may not be set for Resources at pod-level",
        );
    }
    resources::validate_requirements(whole, ResourceOwner::Pod, claims, options.pages, at, errors);
    validate_pod_resource_consistency(spec, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go validatePodResourceConsistency
fn validate_pod_resource_consistency(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let whole = spec.at("resources");
    for (of, only_pages, word) in [("requests", false, "requests"), ("limits", true, "limits")] {
        let list_at = at.child(of);
        for (name, total) in totals(spec, of) {
            let Some(own) = whole.entries(of).get(&name).map(quantity_or_zero) else {
                continue;
            };
            if total > own && (!only_pages || is_hugepages(&name)) {
                let detail =
                    format!("must be greater than or equal to aggregate container {word} of {total}");
                errors.invalid(&list_at.key(&name), own.to_string(), detail);
            }
        }
    }
    let limits = whole.entries("limits");
    for (index, container) in spec.items("containers").iter().enumerate() {
        for (name, limit) in container.at("resources").entries("limits") {
            let (Some(max), limit) = (limits.get(name).map(quantity_or_zero), quantity_or_zero(limit)) else {
                continue;
            };
            if limit > max {
                let list_at = at.child("containers");
                let item_at = list_at.index(index);
                let detail = format!("must be less than or equal to pod limits of {max}");
                errors.invalid(&item_at.key(name).child("limits"), limit.to_string(), detail);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_from_containers() {
        let mut spec = json!({
            "resources": {"limits": {"cpu": "4"}},
            "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            ],
        });
        default_pod_level_resources(&mut spec);
        assert_eq!(
            spec.at("resources"),
            &json!({"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
        );
    }

    #[test]
    fn rejects_requests_below_those_of_containers() {
        let spec = json!({
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"resources": {"requests": {"cpu": "2"}}}],
        });
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        validate_pod_resources(
            &spec,
            &[],
            &path.child("resources"),
            &PodValidationOptions::for_new_pod(),
            &mut errors,
        );
        assert_eq!(
            errors.first().map(ToString::to_string).as_deref(),
            Some(
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2"
            )
        );
    }
}
