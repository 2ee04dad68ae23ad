//! PrepareForCreate and PrepareForUpdate of pods.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::{disabled, pod_level_resources, profile, qos};
use crate::{
    strategy::{Tree, TreeMut},
    time::Time,
};

/// A new pod is pending, with its QoS class and scheduling gate condition.
// upstream: pkg/registry/core/pod/strategy.go PrepareForCreate, applySchedulingGatedCondition
pub(super) fn prepare_for_create(pod: &mut Value, now: Time) {
    pod.set("status", json!({"phase": "Pending"}));
    disabled::drop_disabled_pod_fields(pod, &Value::Null);
    if !pod.at("spec").items("schedulingGates").is_empty() {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now.to_string(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        pod.ensure_object("status").set("conditions", json!([condition]));
    }
    apply_match_label_keys(pod);
    apply_apparmor_version_skew(pod);
    let spec = pod.ensure_object("spec");
    pod_level_resources::default_pod_level_resources(spec);
    let class = qos::compute_pod_qos(spec);
    pod.ensure_object("status").set("qosClass", class);
}

/// An update keeps the status.
// upstream: pkg/registry/core/pod/strategy.go PrepareForUpdate
pub(super) fn prepare_for_update(new: &mut Value, old: &Value) {
    new.copy_from("status", old);
    keep_pod_level_resources(new, old);
    disabled::drop_disabled_pod_fields(new, old);
}

/// Clients that do not know pod-level resources omit them; they are kept.
pub(super) fn keep_pod_level_resources(new: &mut Value, old: &Value) {
    if !new.at("spec").has("resources") && old.at("spec").has("resources") {
        new.ensure_object("spec").copy_from("resources", old.at("spec"));
    }
}

/// A status update keeps the rest, and observedGeneration that old kubelets omit.
// upstream: pkg/registry/core/pod/strategy.go podStatusStrategy, preserveOldObservedGeneration
pub(super) fn prepare_status_for_update(new: &mut Value, old: &Value) {
    new.copy_from("spec", old);
    let metadata = new.ensure_object("metadata");
    metadata.remove("deletionTimestamp");
    metadata.copy_from("ownerReferences", old.at("metadata"));
    let status = new.ensure_object("status");
    let before = old.at("status");
    for name in [
        "qosClass",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
    ] {
        let missing = !status.has(name) || status.at(name).as_str() == Some("");
        if missing {
            status.copy_from(name, before);
        }
    }
    preserve_old_observed_generation(status, before);
    // The old conditions by type; of several with one type, the first.
    let mut of_type: HashMap<&str, VecDeque<&Value>> = HashMap::new();
    for condition in before.items("conditions") {
        of_type
            .entry(condition.text("type"))
            .or_default()
            .push_back(condition);
    }
    for condition in status.items_mut("conditions") {
        let same = of_type.get_mut(condition.text("type"));
        if let Some(before) = same.and_then(VecDeque::pop_front) {
            preserve_old_observed_generation(condition, before);
        }
    }
    disabled::drop_disabled_pod_fields(new, old);
}

fn preserve_old_observed_generation(new: &mut Value, old: &Value) {
    let name = "observedGeneration";
    if new.int_or_zero(name) == 0 {
        new.copy_from(name, old);
    }
}

/// Merges matchLabelKeys and mismatchLabelKeys into the selectors (KEP-3633, KEP-3243).
// upstream: pkg/registry/core/pod/strategy.go applyMatchLabelKeysAndMismatchLabelKeys, applyMatchLabelKeys
fn apply_match_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata").at("labels").clone();
    let spec = pod.ensure_object("spec");
    if let Some(affinity) = spec.at_mut("affinity") {
        for name in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = affinity.at_mut(name) else {
                continue;
            };
            for weighted in terms.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = weighted.at_mut("podAffinityTerm") {
                    apply_label_keys_to_label_selector(term, &labels);
                }
            }
            for term in terms.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                apply_label_keys_to_label_selector(term, &labels);
            }
        }
    }
    for constraint in spec.items_mut("topologySpreadConstraints") {
        apply_label_keys_to_label_selector(constraint, &labels);
    }
}

// upstream: pkg/registry/core/pod/strategy.go applyLabelKeysToLabelSelector
fn apply_label_keys_to_label_selector(term: &mut Value, labels: &Value) {
    if !term.has("labelSelector") {
        return;
    }
    let mut added = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.texts(list) {
            if let Some(value) = labels.at(key).as_str() {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if added.is_empty() {
        return;
    }
    let selector = term.ensure_object("labelSelector");
    let mut all = selector.items("matchExpressions").to_vec();
    all.extend(added);
    selector.set("matchExpressions", all);
}

/// Copies `AppArmor` annotations to the fields.
// upstream: pkg/registry/core/pod/strategy.go applyAppArmorVersionSkew
fn apply_apparmor_version_skew(pod: &mut Value) {
    let annotations = pod.at("metadata").at("annotations").clone();
    let spec = pod.ensure_object("spec");
    let any = annotations
        .as_object()
        .is_some_and(|all| all.keys().any(|key| key.starts_with(profile::APPARMOR)));
    if !any || spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.at_path("securityContext.appArmorProfile").clone();
    for list in super::defaults::CONTAINERS {
        for container in spec.items_mut(list) {
            let key = format!("{}{}", profile::APPARMOR, container.text("name"));
            let Some(annotation) = annotations.at(&key).as_str() else {
                continue;
            };
            if container.at("securityContext").has("appArmorProfile") {
                continue;
            }
            let Some(own) = profile::valid_apparmor_field_for_annotation(annotation) else {
                continue;
            };
            if own != of_pod {
                container
                    .ensure_object("securityContext")
                    .set("appArmorProfile", own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_match_label_keys_into_the_selector() {
        let mut pod = json!({
            "metadata": {"labels": {"hash": "1"}},
            "spec": {"topologySpreadConstraints": [
                {"matchLabelKeys": ["hash", "none"], "labelSelector": {}},
                {"matchLabelKeys": ["hash"]},
            ]},
        });
        apply_match_label_keys(&mut pod);
        let constraints = pod.at("spec").items("topologySpreadConstraints");
        assert_eq!(
            constraints[0].at("labelSelector"),
            &json!({"matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]})
        );
        assert!(!constraints[1].has("labelSelector"));
    }

    #[test]
    fn status_without_observed_generation_keeps_the_old_one() {
        let condition = |generation: i64| json!({"type": "Ready", "observedGeneration": generation});
        let old = json!({"spec": {}, "metadata": {}, "status": {
            "qosClass": "BestEffort", "observedGeneration": 3, "conditions": [condition(2), condition(3)],
        }});
        let mut new = json!({"spec": {"x": 1}, "metadata": {}, "status": {
            "conditions": [{"type": "Ready"}, {"type": "Ready"}, {"type": "Other"}],
        }});
        prepare_status_for_update(&mut new, &old);
        let mut expected = old.clone();
        expected.ensure_object("status").set(
            "conditions",
            json!([condition(2), condition(3), {"type": "Other"}]),
        );
        assert_eq!(new, expected);
    }
}
