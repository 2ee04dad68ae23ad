//! The parts of a pod that change on paths of their own: containers that look into it, and what it asks for.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    annotations, disabled, equality::same, internal, options::Options, prepare, qos, report::Report, resize,
    spec,
};
use crate::{
    apply::managed::{Reset, Step},
    field::Path,
    go,
    kinds::{status_meta, unified_diff},
    rules::{Circumstances, Errors, Rules, Tree, TreeMut},
};

pub(super) struct EphemeralContainers;

pub(super) struct Resize;

// --- EphemeralContainers ---

impl Rules for EphemeralContainers {
    fn prepare_update(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        let containers = new.make("spec").remove("ephemeralContainers");
        new.copy_from("spec", old);
        new.copy_from("status", old);
        status_meta::reset_object_meta_for_status(new, old);
        let spec = new.make("spec");
        match containers {
            Some(containers) => spec.set("ephemeralContainers", containers),
            None => drop(spec.remove("ephemeralContainers")),
        }
        disabled::drop_from_pod(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        if annotations::is_mirror(old) {
            errors.clear();
            return errors.forbidden(&Path::new(""), "static pods do not support ephemeral containers");
        }
        let options = Options::pod_update(old);
        spec::validate_pod(new, &options, errors);
        let metadata_at = Path::new("metadata");
        annotations::validate_update(new, old, &options, &metadata_at.child("annotations"), errors);
        let spec_at = Path::new("spec");
        let at = spec_at.child("ephemeralContainers");
        let after = new.at("spec").items("ephemeralContainers").iter();
        // Of several by one name, the last.
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
                Some(after) if !same(after, before) => {
                    let lines = |container| internal::lines("EphemeralContainer", container);
                    let difference = unified_diff::unified_diff(&lines(before), &lines(after));
                    let detail =
                        format!("existing ephemeral containers {name} may not be changed\n{difference}");
                    errors.forbidden(&at, detail);
                }
                Some(_) => {}
            }
        }
    }

    fn reset(&self, _subresource: &str) -> Option<Reset> {
        let way = vec![Step::Field("spec"), Step::Field("ephemeralContainers")];
        Some(Reset::AllBut(vec![way]))
    }
}

// --- Resize ---

impl Rules for Resize {
    fn prepare_update(&self, new: &mut Value, old: &Value, _at: &Circumstances<'_>) {
        resize::drop_other_changes(new, old);
        prepare::keep_whole_resources(new, old);
        super::whole::complete(new.make("spec"));
        disabled::drop_from_pod(new, old);
    }

    fn validate_update(&self, new: &Value, old: &Value, _at: &Circumstances<'_>, errors: &mut Errors) {
        let refused = if annotations::is_mirror(old) {
            Some("static pods cannot be resized")
        } else {
            let windows = old.at("spec").at("os").text("name") == "windows";
            windows.then_some("windows pods cannot be resized")
        };
        if let Some(detail) = refused {
            errors.clear();
            return errors.forbidden(&Path::new(""), detail);
        }
        spec::validate_pod(new, &Options::pod_update(old), errors);
        let at = Path::new("spec");
        let before = match old.at("status").text("qosClass") {
            "" => qos::class(old.at("spec")),
            class => class,
        };
        if before != qos::class(new.at("spec")) {
            let class = new.at("status").text("qosClass");
            errors.invalid(&at, class, "Pod QOS Class may not change as a result of resizing");
        }
        resize::validate(new, old, &at, errors);
    }

    fn reset(&self, _subresource: &str) -> Option<Reset> {
        let way = |list, field| {
            vec![
                Step::Field("spec"),
                Step::Field(list),
                Step::Any,
                Step::Field(field),
            ]
        };
        Some(Reset::AllBut(vec![
            way("containers", "resources"),
            way("containers", "resizePolicy"),
            way("initContainers", "resources"),
            way("initContainers", "resizePolicy"),
        ]))
    }
}
