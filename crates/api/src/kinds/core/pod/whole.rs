//! What a pod as a whole asks for, beside what its containers do.

use serde_json::Value;

use super::{
    options::{Options, containers},
    report::Report,
    resources::{self, Holder, is_hugepages, overcommits, quantity_or_zero, suits_pod, totals},
};
use crate::{
    field::Path,
    rules::{Errors, Tree, TreeMut},
};

/// Completes the requests and limits of a pod that has some, from those of its containers.
pub(super) fn complete(spec: &mut Value) {
    let asked = spec.at("resources");
    if asked.entries("requests").is_empty() && asked.entries("limits").is_empty() {
        return;
    }
    let container_limits = totals(spec, "limits");
    let container_requests = totals(spec, "requests");
    let mut limits = asked.entries("limits").clone();
    let mut requests = asked.entries("requests").clone();
    for (name, total) in &container_limits {
        if is_hugepages(name) && !requests.contains_key(name) && !limits.contains_key(name) {
            limits.insert(name.clone(), total.to_string().into());
        }
    }
    for (name, total) in &container_requests {
        if suits_pod(name) && overcommits(name) && !requests.contains_key(name) {
            requests.insert(name.clone(), total.to_string().into());
        }
    }
    for (name, limit) in &limits {
        if suits_pod(name) && !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    // Where every container is limited, so is the pod: by as much as they are, or as it asks for.
    for (name, asked) in &requests {
        if !suits_pod(name)
            || limits.contains_key(name)
            || !containers(spec).all(|c| c.at("resources").at("limits").has(name))
        {
            continue;
        }
        let Some(total) = container_limits.get(name) else {
            continue;
        };
        let asked = quantity_or_zero(asked);
        let limit = if asked > *total { &asked } else { total };
        limits.insert(name.clone(), limit.to_string().into());
    }
    let whole = spec.make("resources");
    if !limits.is_empty() {
        whole.set("limits", limits);
    }
    if !requests.is_empty() {
        whole.set("requests", requests);
    }
}

/// What is wrong with what a pod as a whole asks for.
pub(super) fn validate(spec: &Value, claims: &[&str], at: &Path<'_>, options: &Options, errors: &mut Errors) {
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
    resources::validate_requirements(whole, Holder::Pod, claims, options.pages, at, errors);
    at_least_the_containers(spec, at, errors);
}

fn at_least_the_containers(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
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
            let (Some(most), limit) = (limits.get(name).map(quantity_or_zero), quantity_or_zero(limit))
            else {
                continue;
            };
            if limit > most {
                let list_at = at.child("containers");
                let item_at = list_at.index(index);
                let detail = format!("must be less than or equal to pod limits of {most}");
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
    fn what_is_missing_comes_from_the_containers() {
        let mut spec = json!({
            "resources": {"limits": {"cpu": "4"}},
            "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}},
            ],
        });
        complete(&mut spec);
        assert_eq!(
            spec.at("resources"),
            &json!({"limits": {"cpu": "4", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}})
        );
    }

    #[test]
    fn a_pod_asks_for_as_much_as_its_containers() {
        let spec = json!({
            "resources": {"requests": {"cpu": "1"}},
            "containers": [{"resources": {"requests": {"cpu": "2"}}}],
        });
        let mut errors = Errors::new();
        let path = Path::new("spec");
        validate(&spec, &[], &path.child("resources"), &Options::pod(), &mut errors);
        assert_eq!(
            errors.first().map(ToString::to_string).as_deref(),
            Some(
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2"
            )
        );
    }
}
