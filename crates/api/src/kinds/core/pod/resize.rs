//! Resizing: what of the resources of a running pod may change.

use serde_json::Value;

use super::{equality::same, options::is_sidecar, report::Report};
use crate::{
    field::Path,
    kinds::status_meta,
    rules::{Errors, Tree, TreeMut},
};

const LISTS: [&str; 2] = ["containers", "initContainers"];
const ONLY_COMPUTE: &str = "only cpu and memory resources are mutable";

/// Takes back all a resize cannot change. Containers that come, go or change places are left for the rules to refuse.
pub(super) fn drop_other_changes(new: &mut Value, old: &Value) {
    let before = old.at("spec");
    let counts_differ = |list: &str| new.at("spec").items(list).len() != before.items(list).len();
    if LISTS.into_iter().any(counts_differ) {
        return;
    }
    let mut spec = before.clone();
    spec.copy_from("resources", new.at("spec"));
    for list in LISTS {
        let asked = new.at("spec").items(list);
        let kept = before.items(list);
        if asked
            .iter()
            .zip(kept)
            .any(|(asked, kept)| asked.text("name") != kept.text("name"))
        {
            spec.set(list, asked.to_vec());
            continue;
        }
        for (container, asked) in spec.items_mut(list).iter_mut().zip(asked) {
            container.copy_from("resources", asked);
            container.copy_from("resizePolicy", asked);
        }
    }
    new.set("spec", spec);
    new.copy_from("status", old);
    status_meta::reset_object_meta_for_status(new, old);
}

/// What is wrong with a resize, beside the spec it leads to.
pub(super) fn validate(new_pod: &Value, old_pod: &Value, at: &Path<'_>, errors: &mut Errors) {
    if !node_can_resize(old_pod) {
        errors.forbidden(at, "Pod running on node without support for resize");
    }
    let new = new_pod.at("spec");
    let old = old_pod.at("spec");
    let asks = |spec: &Value| {
        let whole = spec.at("resources");
        !whole.entries("requests").is_empty() || !whole.entries("limits").is_empty()
    };
    let mut masked = new.clone();
    if asks(old) || asks(new) {
        whole(&mut masked, new, old, at, errors);
    }
    if !same_order(new, old, at, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let list_at = at.child(list);
        for (index, (after, before)) in new.items(list).iter().zip(old.items(list)).enumerate() {
            let item_at = list_at.index(index);
            let field_path = item_at.child("resources");
            for (of, word) in [("requests", "resource requests"), ("limits", "resource limits")] {
                if removed(after.at("resources"), before.at("resources"), of) {
                    errors.forbidden(&field_path.child(of), format!("{word} cannot be removed"));
                }
            }
        }
    }
    for (container, before) in masked
        .items_mut("containers")
        .iter_mut()
        .zip(old.items("containers"))
    {
        restore_compute(container.make("resources"), before.at("resources"));
        if !same(container, before) {
            errors.forbidden(at, ONLY_COMPUTE);
        }
    }
    init_containers(&mut masked, old, &at.child("initContainers"), errors);
    if !same(new.at("volumes"), old.at("volumes")) {
        let detail = "volumes are immutable on resize when InPlacePodVerticalScalingMemoryBackedVolumes feature gate is disabled";
        errors.forbidden(&at.child("volumes"), detail);
    }
    if errors.is_empty() && !same(&masked, old) {
        errors.forbidden(at, ONLY_COMPUTE);
    }
}

fn init_containers(masked: &mut Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    let pairs = masked
        .items_mut("initContainers")
        .iter_mut()
        .zip(old.items("initContainers"));
    for (index, (container, before)) in pairs.enumerate() {
        let changed = !same(container, before);
        restore_compute(container.make("resources"), before.at("resources"));
        if !same(container, before) {
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

/// What a pod as a whole asks for may change, but not go.
fn whole(masked: &mut Value, new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) {
    let after = new.at("resources");
    let before = old.at("resources");
    let field_path = at.child("resources");
    if !before.is_null() && after.is_null() {
        return errors.forbidden(&field_path, "pod-level resources cannot be removed");
    }
    if !before.is_null() {
        for (of, word) in [("requests", "resource requests"), ("limits", "resource limits")] {
            if removed(after, before, of) {
                errors.forbidden(
                    &field_path.child(of),
                    format!("pod-level {word} cannot be removed"),
                );
            }
        }
    }
    let kept = masked.make("resources");
    restore_compute(kept, before);
    let empty = |list: &str| kept.entries(list).is_empty();
    if before.is_null() && empty("requests") && empty("limits") && kept.items("claims").is_empty() {
        masked.remove("resources");
    }
    if !same(masked.at("resources"), before) {
        errors.forbidden(at, "only cpu and memory resources are mutable at pod-level");
    }
}

/// Whether something was asked for that no longer is.
fn removed(after: &Value, before: &Value, of: &str) -> bool {
    let after = after.entries(of);
    let before = before.entries(of);
    before.keys().any(|name| !after.contains_key(name))
}

/// Gives processors and memory back as they were.
fn restore_compute(requirements: &mut Value, before: &Value) {
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

fn same_order(new: &Value, old: &Value, at: &Path<'_>, errors: &mut Errors) -> bool {
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

/// A node that tells what its running containers have can give them more or less.
fn node_can_resize(pod: &Value) -> bool {
    let mut statuses = pod.at("status").items("containerStatuses").iter();
    let running = statuses.find(|status| status.at("state").has("running"));
    running.is_none_or(|status| status.has("resources"))
}
