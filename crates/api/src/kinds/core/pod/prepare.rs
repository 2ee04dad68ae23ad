//! What is set with a new pod, and what a client cannot set or change.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::{disabled, profile, qos, whole};
use crate::{
    rules::{Tree, TreeMut},
    time::Time,
};

/// A new pod waits to be scheduled.
pub(super) fn create(pod: &mut Value, now: Time) {
    pod.set("status", json!({"phase": "Pending"}));
    disabled::drop_from_pod(pod, &Value::Null);
    if !pod.at("spec").items("schedulingGates").is_empty() {
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": now.to_string(),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        pod.make("status").set("conditions", json!([condition]));
    }
    merge_label_keys(pod);
    profiles_from_annotations(pod);
    let spec = pod.make("spec");
    whole::complete(spec);
    let class = qos::class(spec);
    pod.make("status").set("qosClass", class);
}

/// A change leaves the status as it was.
pub(super) fn update(new: &mut Value, old: &Value) {
    new.copy_from("status", old);
    keep_whole_resources(new, old);
    disabled::drop_from_pod(new, old);
}

/// Clients that do not know what a pod as a whole asks for leave it out; it stays.
pub(super) fn keep_whole_resources(new: &mut Value, old: &Value) {
    if !new.at("spec").has("resources") && old.at("spec").has("resources") {
        new.make("spec").copy_from("resources", old.at("spec"));
    }
}

/// A change of the status leaves the rest as it was; what old nodes forget to tell stays too.
pub(super) fn status(new: &mut Value, old: &Value) {
    new.copy_from("spec", old);
    let metadata = new.make("metadata");
    metadata.remove("deletionTimestamp");
    metadata.copy_from("ownerReferences", old.at("metadata"));
    let status = new.make("status");
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
    keep_observed(status, before);
    // The old conditions by type; the first new one of a type is the first old one of it.
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
            keep_observed(condition, before);
        }
    }
    disabled::drop_from_pod(new, old);
}

fn keep_observed(new: &mut Value, old: &Value) {
    let name = "observedGeneration";
    if new.int(name).unwrap_or_default() == 0 {
        new.copy_from(name, old);
    }
}

/// Selectors that are to match the pod's own values of some labels get them.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.at("metadata").at("labels").clone();
    let spec = pod.make("spec");
    if let Some(affinity) = spec.at_mut("affinity") {
        for name in ["podAffinity", "podAntiAffinity"] {
            let Some(terms) = affinity.at_mut(name) else {
                continue;
            };
            for weighted in terms.items_mut("preferredDuringSchedulingIgnoredDuringExecution") {
                if let Some(term) = weighted.at_mut("podAffinityTerm") {
                    merge(term, &labels);
                }
            }
            for term in terms.items_mut("requiredDuringSchedulingIgnoredDuringExecution") {
                merge(term, &labels);
            }
        }
    }
    for constraint in spec.items_mut("topologySpreadConstraints") {
        merge(constraint, &labels);
    }
}

fn merge(term: &mut Value, labels: &Value) {
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
    let selector = term.make("labelSelector");
    let mut all = selector.items("matchExpressions").to_vec();
    all.extend(added);
    selector.set("matchExpressions", all);
}

/// Containers whose `AppArmor` profile stands in an annotation get it as a field.
fn profiles_from_annotations(pod: &mut Value) {
    let annotations = pod.at("metadata").at("annotations").clone();
    let spec = pod.make("spec");
    let any = annotations
        .as_object()
        .is_some_and(|all| all.keys().any(|key| key.starts_with(profile::APPARMOR)));
    if !any || spec.at("os").text("name") == "windows" {
        return;
    }
    let of_pod = spec.way("securityContext.appArmorProfile").clone();
    for list in super::defaults::CONTAINERS {
        for container in spec.items_mut(list) {
            let key = format!("{}{}", profile::APPARMOR, container.text("name"));
            let Some(annotation) = annotations.at(&key).as_str() else {
                continue;
            };
            if container.at("securityContext").has("appArmorProfile") {
                continue;
            }
            let Some(own) = profile::valid_apparmor_of(annotation) else {
                continue;
            };
            if own != of_pod {
                container.make("securityContext").set("appArmorProfile", own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_labels_become_part_of_the_selector() {
        let mut pod = json!({
            "metadata": {"labels": {"hash": "1"}},
            "spec": {"topologySpreadConstraints": [
                {"matchLabelKeys": ["hash", "none"], "labelSelector": {}},
                {"matchLabelKeys": ["hash"]},
            ]},
        });
        merge_label_keys(&mut pod);
        let constraints = pod.at("spec").items("topologySpreadConstraints");
        assert_eq!(
            constraints[0].at("labelSelector"),
            &json!({"matchExpressions": [{"key": "hash", "operator": "In", "values": ["1"]}]})
        );
        assert!(!constraints[1].has("labelSelector"));
    }

    #[test]
    fn a_status_without_observed_generations_keeps_the_old_ones() {
        let condition = |generation: i64| json!({"type": "Ready", "observedGeneration": generation});
        let old = json!({"spec": {}, "metadata": {}, "status": {
            "qosClass": "BestEffort", "observedGeneration": 3, "conditions": [condition(2), condition(3)],
        }});
        let mut new = json!({"spec": {"x": 1}, "metadata": {}, "status": {
            "conditions": [{"type": "Ready"}, {"type": "Ready"}, {"type": "Other"}],
        }});
        status(&mut new, &old);
        let mut wanted = old.clone();
        wanted.make("status").set(
            "conditions",
            json!([condition(2), condition(3), {"type": "Other"}]),
        );
        assert_eq!(new, wanted);
    }
}
