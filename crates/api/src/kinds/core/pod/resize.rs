//! In-place resize of pods (KEP-1287).

use serde_json::Value;

use super::{equality::semantic_equal, error_list::ErrorListExt, options::is_sidecar};
use crate::{
    field::Path,
    kinds::status_meta,
    strategy::{ErrorList, Tree, TreeMut},
};

const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY_COMPUTE: &str = "only cpu and memory resources are mutable";

/// Drops all changes but those of a resize. Containers that are added, removed or reordered are left for validation to reject.
// upstream: pkg/registry/core/pod/strategy.go dropNonResizeUpdates, dropNonResizeUpdatesForContainers
pub(super) fn drop_non_resize_updates(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let counts_differ = |list: &str| new.at("spec").items(list).len() != before.items(list).len();
    if LISTS.into_iter().any(counts_differ) {
        return;
    }
    let mut spec = before.clone();
    spec.copy_from("resources", new.at("spec"));
    for list in LISTS {
        let new_containers = new.at("spec").items(list);
        let old_containers = before.items(list);
        if new_containers
            .iter()
            .zip(old_containers)
            .any(|(new, old)| new.text("name") != old.text("name"))
        {
            spec.set(list, new_containers.to_vec());
            continue;
        }
        for (container, new) in spec.items_mut(list).iter_mut().zip(new_containers) {
            container.copy_from("resources", new);
            container.copy_from("resizePolicy", new);
        }
    }
    new.set("spec", spec);
    new.copy_from("status", old);
    status_meta::reset_object_meta_for_status(new, old);
}

/// Validates a resize, beside the resulting spec.
// upstream: pkg/apis/core/validation/validation.go ValidatePodResize
pub(super) fn validate_pod_resize(new_pod: &Value, old_pod: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if !is_resize_supported(old_pod) {
        errors.forbidden(at, "Pod running on node without support for resize");
    }
    let new = new_pod.at("spec");
    let old = old_pod.at("spec");
    let has_pod_level_resources = |spec: &Value| {
        let whole = spec.at("resources");
        !whole.entries("requests").is_empty() || !whole.entries("limits").is_empty()
    };
    let mut masked = new.clone();
    if has_pod_level_resources(old) || has_pod_level_resources(new) {
        validate_pod_level_resize(&mut masked, new, old, at, errors);
    }
    if !validate_container_ordering(new, old, at, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let list_at = at.child(list);
        for (index, (after, before)) in new.items(list).iter().zip(old.items(list)).enumerate() {
            let item_at = list_at.index(index);
            let field_path = item_at.child("resources");
            for (requirement, description) in
                [("requests", "resource requests"), ("limits", "resource limits")]
            {
                if is_resource_removed(after.at("resources"), before.at("resources"), requirement) {
                    errors.forbidden(
                        &field_path.child(requirement),
                        format!("{description} cannot be removed"),
                    );
                }
            }
        }
    }
    for (container, before) in masked
        .items_mut("containers")
        .iter_mut()
        .zip(old.items("containers"))
    {
        restore_cpu_and_memory(container.ensure_object("resources"), before.at("resources"));
        if !semantic_equal(container, before) {
            errors.forbidden(at, ONLY_COMPUTE);
        }
    }
    validate_init_container_resize(&mut masked, old, &at.child("initContainers"), errors);
    if !semantic_equal(new.at("volumes"), old.at("volumes")) {
        let detail = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled";
        errors.forbidden(&at.child("volumes"), detail);
    }
    if errors.is_empty() && !semantic_equal(&masked, old) {
        errors.forbidden(at, ONLY_COMPUTE);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodResize
fn validate_init_container_resize(masked: &mut Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let pairs = masked
        .items_mut("initContainers")
        .iter_mut()
        .zip(old.items("initContainers"));
    for (index, (container, before)) in pairs.enumerate() {
        let changed = !semantic_equal(container, before);
        restore_cpu_and_memory(container.ensure_object("resources"), before.at("resources"));
        if !semantic_equal(container, before) {
            let detail = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.forbidden(&at.index(index), detail);
        }
        if changed && !is_sidecar(container) {
            let policies = container.items("resizePolicy").iter();
            for _ in policies.filter(|policy| policy.text("restartPolicy") == "RestartContainer") {
                let detail =
                    "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.forbidden(&at.index(index), detail);
            }
        }
    }
}

/// Pod-level resources may change, but not be removed.
// upstream: pkg/apis/core/validation/validation.go validatePodLevelResourcesResize
fn validate_pod_level_resize(
    masked: &mut Value,
    new: &Value,
    old: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let after = new.at("resources");
    let before = old.at("resources");
    let field_path = at.child("resources");
    if !before.is_null() && after.is_null() {
        return errors.forbidden(&field_path, "pod-level resources cannot be removed");
    }
    if !before.is_null() {
        for (of, word) in [("requests", "resource requests"), ("limits", "resource limits")] {
            if is_resource_removed(after, before, of) {
                errors.forbidden(
                    &field_path.child(of),
                    format!("pod-level {word} cannot be removed"),
                );
            }
        }
    }
    let resources = masked.ensure_object("resources");
    restore_cpu_and_memory(resources, before);
    let empty = |list: &str| resources.entries(list).is_empty();
    if before.is_null() && empty("requests") && empty("limits") && resources.items("claims").is_empty() {
        masked.remove("resources");
    }
    if !semantic_equal(masked.at("resources"), before) {
        errors.forbidden(at, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Whether a request or limit was removed.
// upstream: pkg/apis/core/validation/validation.go resourcesRemoved
fn is_resource_removed(after: &Value, before: &Value, of: &str) -> bool {
    let after = after.entries(of);
    let before = before.entries(of);
    before.keys().any(|name| !after.contains_key(name))
}

/// Restores cpu and memory as they were.
// upstream: pkg/apis/core/validation/validation.go dropCPUMemoryResourceRequirementsUpdates
fn restore_cpu_and_memory(requirements: &mut Value, before: &Value) {
    for of in ["limits", "requests"] {
        let mut list = requirements.entries(of).clone();
        for name in ["cpu", "memory"] {
            match before.at(of).get(name) {
                Some(amount) => drop(list.insert(name.to_owned(), amount.clone())),
                None => drop(list.remove(name)),
            }
        }
        if list.is_empty() {
            requirements.remove(of);
        } else {
            requirements.set(of, list);
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go validatePodResizeContainerOrdering
fn validate_container_ordering(new: &Value, old: &Value, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let messages = errors.len();
    for list in LISTS {
        let after = new.items(list);
        let before = old.items(list);
        let list_at = at.child(list);
        if after.len() != before.len() {
            errors.forbidden(&list_at, format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (index, (after, before)) in after.iter().zip(before).enumerate() {
            if after.text("name") != before.text("name") {
                let detail = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&list_at.index(index).child("name"), detail);
            }
        }
    }
    errors.len() == messages
}

/// A kubelet that reports allocated resources supports resize.
// upstream: pkg/apis/core/validation/validation.go isPodResizeRequestSupported
fn is_resize_supported(pod: &Value) -> bool {
    let mut statuses = pod.at("status").items("containerStatuses").iter();
    let running = statuses.find(|status| status.at("state").has("running"));
    running.is_none_or(|status| status.has("resources"))
}
