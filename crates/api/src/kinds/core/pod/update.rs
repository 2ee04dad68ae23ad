//! Validation of pod updates.

use std::collections::HashSet;

use serde_json::Value;

use super::{
    annotations, equality::semantic_equal, error_list::ErrorListExt, internal, options::PodValidationOptions,
    spec, toleration,
};
use crate::{
    field::Path,
    kinds::unified_diff,
    name::validate_in_range,
    strategy::{ErrorList, Tree, TreeMut},
};

const IMMUTABLE_FIELDS: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,\
    `spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate
pub(super) fn validate_pod_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let options = PodValidationOptions::for_pod_update(old);
    spec::validate_pod(new, &options, errors);
    let metadata_at = Path::new("metadata");
    annotations::validate_annotation_update(new, old, &options, &metadata_at.child("annotations"), errors);
    let at = Path::new("spec");
    let new = new.at("spec");
    let old = old.at("spec");
    for list in ["containers", "initContainers"] {
        let list_at = at.child(list);
        if new.items(list).len() != old.items(list).len() {
            return errors.forbidden(&list_at, "pod updates may not add or remove containers");
        }
        for (index, container) in new.items(list).iter().enumerate() {
            if container.text("image").is_empty() {
                errors.required(&list_at.index(index).child("image"), "");
            }
            super::container::validate_image(container, &list_at.index(index), errors);
        }
    }
    if !validate_deadline_update(new, old, &at.child("activeDeadlineSeconds"), errors) {
        return;
    }
    toleration::validate_only_added_tolerations(new, old, &options, &at.child("tolerations"), errors);
    validate_only_deleted_scheduling_gates(new, old, &at.child("schedulingGates"), errors);
    if semantic_equal(new, old) {
        return;
    }
    let masked = with_mutable_fields_restored(new, old, &at, errors);
    if !semantic_equal(&masked, old) {
        let difference = unified_diff::unified_diff(
            &internal::internal_lines("PodSpec", old),
            &internal::internal_lines("PodSpec", &masked),
        );
        errors.forbidden(&at, format!("{IMMUTABLE_FIELDS}\n{difference}"));
    }
}

/// activeDeadlineSeconds may be set, or decreased. Returns whether the rest is validated.
// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate
fn validate_deadline_update(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let name = "activeDeadlineSeconds";
    match (new.int(name), old.int(name)) {
        (Some(seconds), before) => {
            let msgs = validate_in_range(seconds, 0, i64::from(i32::MAX));
            if let Some(msg) = msgs.into_iter().next() {
                errors.invalid(at, seconds, msg);
                return false;
            }
            if before.is_some_and(|before| before < seconds) {
                errors.invalid(at, seconds, "must be less than or equal to previous value");
                return false;
            }
        }
        (None, Some(_)) => {
            errors.invalid(
                at,
                Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        (None, None) => {}
    }
    true
}

// upstream: pkg/apis/core/validation/validation.go validateOnlyDeletedSchedulingGates
fn validate_only_deleted_scheduling_gates(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let before = old.items("schedulingGates").iter();
    let before: HashSet<&str> = before.map(|gate| gate.text("name")).collect();
    for (index, gate) in new.items("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !before.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&at.index(index).child("name"), detail);
        }
    }
}

/// The new spec with the mutable fields as they were; any remaining difference is an error.
// upstream: pkg/apis/core/validation/validation.go ValidatePodUpdate
fn with_mutable_fields_restored(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) -> Value {
    let mut masked = new.clone();
    for list in ["containers", "initContainers"] {
        for (container, before) in masked.items_mut(list).iter_mut().zip(old.items(list)) {
            container.copy_from("image", before);
        }
    }
    for name in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        masked.copy_from(name, old);
    }
    let grace = "terminationGracePeriodSeconds";
    if old.int(grace).is_some_and(|seconds| seconds < 0) && masked.int(grace) == Some(1) {
        masked.copy_from(grace, old);
    }
    if old.items("schedulingGates").is_empty() {
        return masked;
    }
    // A gated pod may narrow its node selection.
    if masked.at("nodeSelector") != old.at("nodeSelector") {
        let is_kept = old
            .entries("nodeSelector")
            .iter()
            .all(|(key, value)| masked.at("nodeSelector").at(key) == value);
        if !is_kept {
            let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(&at.child("nodeSelector"), masked.at("nodeSelector"), detail);
        }
        masked.copy_from("nodeSelector", old);
    }
    let after = new.at_path("affinity.nodeAffinity");
    let before = old.at_path("affinity.nodeAffinity");
    if after != before {
        let affinity_at = at.child("affinity");
        validate_node_affinity_mutation(after, before, &affinity_at.child("nodeAffinity"), errors);
        let others = masked.at("affinity").has("podAffinity") || masked.at("affinity").has("podAntiAffinity");
        if old.has("affinity") || others {
            masked
                .ensure_object("affinity")
                .copy_from("nodeAffinity", old.at("affinity"));
        } else {
            masked.remove("affinity");
        }
    }
    masked
}

// upstream: pkg/apis/core/validation/validation.go validateNodeAffinityMutation
fn validate_node_affinity_mutation(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let before = old.at(REQUIRED).items("nodeSelectorTerms");
    let after = new.at(REQUIRED).items("nodeSelectorTerms");
    if before.is_empty() {
        return;
    }
    let required_at = at.child(REQUIRED);
    let terms_at = required_at.child("nodeSelectorTerms");
    if after.len() != before.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(
            &terms_at,
            internal::internal_list_value("NodeSelectorTerm", after),
            detail,
        );
    }
    for (index, (after, before)) in after.iter().zip(before).enumerate() {
        if !has_only_additions(after, before) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(
                &terms_at.index(index),
                internal::internal_value("NodeSelectorTerm", after),
                detail,
            );
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validateNodeSelectorTermHasOnlyAdditions
fn has_only_additions(after: &Value, before: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let all_empty = |term: &Value| lists.iter().all(|list| term.items(list).is_empty());
    // A term without requirements matches no node, and must stay so.
    (!all_empty(before) || all_empty(after))
        && lists
            .iter()
            .all(|list| after.items(list).starts_with(before.items(list)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update_messages(old: &Value, new: &Value) -> Vec<String> {
        let complete = |spec: &Value| {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
            super::super::defaults::set_defaults_pod(&mut pod);
            pod
        };
        let mut errors = ErrorList::new();
        validate_pod_update(&complete(new), &complete(old), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allows_changes_of_images_deadlines_and_tolerations() {
        let old = json!({"containers": [{"name": "c", "image": "a"}], "activeDeadlineSeconds": 9});
        let new = json!({
            "containers": [{"name": "c", "image": "a:2", "imagePullPolicy": "Always"}],
            "activeDeadlineSeconds": 8,
            "tolerations": [{"operator": "Exists"}],
        });
        assert_eq!(update_messages(&old, &new), [""; 0]);
    }

    #[test]
    fn reports_other_changes_as_a_diff() {
        let old = json!({"containers": [{"name": "c", "image": "a"}]});
        let new = json!({"containers": [{"name": "c", "image": "a"}], "hostname": "h"});
        let messages = update_messages(&old, &new).join("");
        assert!(messages.starts_with("spec: Forbidden: pod updates may not change fields other than"));
        assert!(messages.ends_with("- \"Hostname\": \"\",\n+ \"Hostname\": \"h\",\n  \"Subdomain\": \"\",\n  \"Affinity\": null,\n  \"SchedulerName\": \"default-scheduler\",\n"), "{messages}");
    }

    #[test]
    fn only_gated_pods_may_narrow_node_selection() {
        let gated = |nodes: Value| json!({"containers": [{"name": "c", "image": "a"}], "schedulingGates": [{"name": "g"}], "nodeSelector": nodes});
        assert_eq!(
            update_messages(&gated(json!({"a": "b"})), &gated(json!({"a": "b", "c": "d"}))),
            [""; 0]
        );
        assert_eq!(
            update_messages(&gated(json!({"a": "b"})), &gated(json!({"c": "d"}))),
            [
                "spec.nodeSelector: Invalid value: {\"c\":\"d\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            ]
        );
    }
}
