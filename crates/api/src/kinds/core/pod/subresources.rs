//! The `ephemeralcontainers` and `resize` subresources of pods.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    annotations, disabled, equality::semantic_equal, error_list::ErrorListExt, internal,
    options::PodValidationOptions, prepare, qos, resize, spec,
};
use crate::{
    apply::managed::{PathElementMatcher, ResetFields},
    field::Path,
    go,
    kinds::{status_meta, unified_diff},
    strategy::{ErrorList, RestStrategy, StrategyContext, Tree, TreeMut},
};

pub(super) struct EphemeralContainers;

pub(super) struct Resize;

// --- EphemeralContainers ---

impl RestStrategy for EphemeralContainers {
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        let containers = new.ensure_object("spec").remove("ephemeralContainers");
        new.copy_from("spec", old);
        new.copy_from("status", old);
        status_meta::reset_object_meta_for_status(new, old);
        let spec = new.ensure_object("spec");
        match containers {
            Some(containers) => spec.set("ephemeralContainers", containers),
            None => drop(spec.remove("ephemeralContainers")),
        }
        disabled::drop_disabled_pod_fields(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        if annotations::is_mirror_pod(old) {
            errors.clear();
            return errors.forbidden(&Path::new(""), "static pods do not support ephemeral containers");
        }
        let options = PodValidationOptions::for_pod_update(old);
        spec::validate_pod(new, &options, errors);
        let metadata_at = Path::new("metadata");
        annotations::validate_annotation_update(
            new,
            old,
            &options,
            &metadata_at.child("annotations"),
            errors,
        );
        let spec_at = Path::new("spec");
        let at = spec_at.child("ephemeralContainers");
        let after = new.at("spec").items("ephemeralContainers").iter();
        // Of several with one name, the last counts.
        let after: HashMap<&str, &Value> = after
            .map(|container| (container.text("name"), container))
            .collect();
        for before in old.at("spec").items("ephemeralContainers") {
            if errors.is_full() {
                return;
            }
            let name = go::quote(before.text("name"));
            match after.get(before.text("name")) {
                None => {
                    let detail = format!("existing ephemeral containers {name} may not be removed\n");
                    errors.forbidden(&at, detail);
                }
                Some(after) if !semantic_equal(after, before) => {
                    let lines = |container| internal::internal_lines("EphemeralContainer", container);
                    let difference = unified_diff::unified_diff(&lines(before), &lines(after));
                    let detail =
                        format!("existing ephemeral containers {name} may not be changed\n{difference}");
                    errors.forbidden(&at, detail);
                }
                Some(_) => {}
            }
        }
    }

    fn reset_fields(&self, _subresource: &str) -> Option<ResetFields> {
        let path = vec![
            PathElementMatcher::Field("spec"),
            PathElementMatcher::Field("ephemeralContainers"),
        ];
        Some(ResetFields::AllBut(vec![path]))
    }
}

// --- Resize ---

impl RestStrategy for Resize {
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _at: &StrategyContext<'_>) {
        resize::drop_non_resize_updates(new, old);
        prepare::keep_pod_level_resources(new, old);
        super::pod_level_resources::default_pod_level_resources(new.ensure_object("spec"));
        disabled::drop_disabled_pod_fields(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &StrategyContext<'_>, errors: &mut ErrorList) {
        let rejection = if annotations::is_mirror_pod(old) {
            Some("static pods cannot be resized")
        } else {
            let windows = old.at("spec").at("os").text("name") == "windows";
            windows.then_some("windows pods cannot be resized")
        };
        if let Some(detail) = rejection {
            errors.clear();
            return errors.forbidden(&Path::new(""), detail);
        }
        spec::validate_pod(new, &PodValidationOptions::for_pod_update(old), errors);
        let at = Path::new("spec");
        let before = match old.at("status").text("qosClass") {
            "" => qos::compute_pod_qos(old.at("spec")),
            class => class,
        };
        if before != qos::compute_pod_qos(new.at("spec")) {
            let class = new.at("status").text("qosClass");
            errors.invalid(&at, class, "Pod QOS Class may not change as a result of resizing");
        }
        resize::validate_pod_resize(new, old, &at, errors);
    }

    fn reset_fields(&self, _subresource: &str) -> Option<ResetFields> {
        let path = |list, field| {
            vec![
                PathElementMatcher::Field("spec"),
                PathElementMatcher::Field(list),
                PathElementMatcher::Any,
                PathElementMatcher::Field(field),
            ]
        };
        Some(ResetFields::AllBut(vec![
            path("containers", "resources"),
            path("containers", "resizePolicy"),
            path("initContainers", "resources"),
            path("initContainers", "resizePolicy"),
        ]))
    }
}
