//! Annotations of pods with a meaning to the API server.

use serde_json::Value;

use super::{error_list::ErrorListExt, options::PodValidationOptions, profile, toleration};
use crate::{
    field::Path,
    strategy::{ErrorList, Tree},
};

/// Marks a mirror pod of a static pod.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn is_mirror_pod(pod: &Value) -> bool {
    pod.at("metadata").at("annotations").has(MIRROR)
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpecificAnnotations
pub(super) fn validate_pod_annotations(
    metadata: &Value,
    spec: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let annotations = metadata.at("annotations");
    if annotations.is_null() {
        return;
    }
    if annotations.has(MIRROR) && spec.text("nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&at.key(MIRROR), annotations.text(MIRROR), detail);
    }
    let tolerations = annotations.text(TOLERATIONS);
    if !tolerations.is_empty() {
        match serde_json::from_str::<Value>(tolerations) {
            Ok(list) => {
                let items = list.as_array().map_or(&[][..], Vec::as_slice);
                toleration::validate_tolerations(items, options, &at.child(TOLERATIONS), errors);
            }
            Err(error) => errors.invalid(at, TOLERATIONS, error.to_string()),
        }
    }
    if !options.allow_invalid_deletion_cost && !has_valid_deletion_cost(metadata) {
        let value = annotations.text(DELETION_COST);
        errors.invalid(&at.key(DELETION_COST), value, "must be a 32bit integer");
    }
    profile::validate_annotations(annotations, spec, at, errors);
}

/// Whether the deletion cost is a number or absent.
pub(super) fn has_valid_deletion_cost(metadata: &Value) -> bool {
    let Some(cost) = metadata.at("annotations").at(DELETION_COST).as_str() else {
        return true;
    };
    let plain = cost == "0" || cost.starts_with('-') || cost.starts_with(|c| matches!(c, '1'..='9'));
    plain && cost.parse::<i32>().is_ok()
}

// upstream: pkg/apis/core/validation/validation.go ValidatePodSpecificAnnotationUpdates
pub(super) fn validate_annotation_update(
    new: &Value,
    old: &Value,
    options: &PodValidationOptions,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let before = old.at("metadata").entries("annotations");
    let after = new.at("metadata").entries("annotations");
    let what = |key: &str| {
        if key.starts_with(profile::APPARMOR) {
            Some("AppArmor annotations")
        } else {
            (key == MIRROR).then_some("mirror pod annotation")
        }
    };
    for (key, value) in before {
        if let Some(what) = what(key).filter(|_| after.get(key) != Some(value)) {
            errors.forbidden(&at.key(key), format!("may not remove or update {what}"));
        }
    }
    for key in after.keys() {
        if let Some(what) = what(key).filter(|_| !before.contains_key(key)) {
            errors.forbidden(&at.key(key), format!("may not add {what}"));
        }
    }
    validate_pod_annotations(new.at("metadata"), new.at("spec"), options, at, errors);
}
