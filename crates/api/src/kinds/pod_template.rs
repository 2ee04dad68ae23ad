//! What the kinds with a pod template share: selector and template validation, warnings, the container columns.

use serde_json::{Value, json};

use super::{
    core::pod::{self, PodValidationOptions},
    counts, label_selector,
};
use crate::{
    field::{BadValue, Error, Path},
    go, name,
    selector::label::{self, InvalidValues, Selector},
    strategy::{Column, ColumnDescription, ErrorList, Row, Tree, TreeMut, named_row},
    time::Time,
};

// upstream: pkg/printers/internalversion/printers.go AddHandlers, layoutContainerCells
pub(super) const CONTAINERS: Column =
    Column::text("Containers", "Names of each container in the template.").wide();
pub(super) const IMAGES: Column =
    Column::text("Images", "Images referenced by each container in the template.").wide();

/// Fields of `ObjectMeta` of a template in the order of the Go struct.
const METADATA_FIELDS: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// The columns of ReplicaSets and ReplicationControllers.
pub(super) const REPLICAS_COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Desired", "integer", ColumnDescription::Field("spec.replicas")),
    Column::new("Current", "integer", ColumnDescription::Field("status.replicas")),
    Column::new(
        "Ready",
        "integer",
        ColumnDescription::Field("status.readyReplicas"),
    ),
    Column::age(),
    CONTAINERS,
    IMAGES,
    Column::field("Selector", "spec.selector").wide(),
];

pub(super) const SELECTOR_MISMATCH: &str = "`selector` does not match template `labels`";

/// The cells with names and images of the containers of a template.
// upstream: pkg/printers/internalversion/printers.go layoutContainerCells
pub(super) fn layout_container_cells(template: &Value) -> [Value; 2] {
    let containers = template.at("spec").items("containers");
    ["name", "image"].map(|field| {
        let texts: Vec<_> = containers.iter().map(|container| container.text(field)).collect();
        json!(texts.join(","))
    })
}

// upstream: pkg/printers/internalversion/printers.go printReplicaSet, printReplicationController
/// A row for [`REPLICAS_COLUMNS`]; `selector` formats the selector of the kind.
pub(super) fn replicas_row(object: &Value, now: Time, selector: fn(&Value) -> Value) -> Row {
    let spec = object.at("spec");
    let status = object.at("status");
    let counts = [
        spec.int("replicas"),
        status.int("replicas"),
        status.int("readyReplicas"),
    ];
    let mut row = named_row(object, now, counts.map(|count| json!(count.unwrap_or_default())));
    row.cells.extend(layout_container_cells(spec.at("template")));
    row.cells.push(selector(spec.at("selector")));
    row
}

/// Warns of a name that is no DNS label: it becomes the prefix of pod names, which are host names.
// upstream: pkg/registry/apps/deployment/strategy.go WarningsOnCreate
pub(super) fn warn_about_pod_name_prefix(object: &Value) -> Option<String> {
    let msgs = name::validate_dns1123_label(object.at("metadata").text("name"));
    let msgs: Vec<_> = msgs.into_iter().map(Value::String).collect();
    (!msgs.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: {}",
            go::plain_list(&msgs)
        )
    })
}

/// Clears fields of disabled feature gates in the template; `old` is `null` on create.
// upstream: pkg/api/pod/util.go DropDisabledTemplateFields
pub(super) fn drop_disabled_template_fields(object: &mut Value, old: &Value) {
    if let Some(template) = object.ensure_object("spec").at_mut("template") {
        pod::drop_disabled_template_fields(template, old.at("spec").at("template"));
    }
}

/// Warnings about the template: always on create, on update only when the generation changed.
// upstream: pkg/registry/apps/deployment/strategy.go WarningsOnCreate, WarningsOnUpdate
pub(super) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let generation = |object: &Value| object.at("metadata").int("generation");
    if old.is_some_and(|old| generation(old) == generation(new)) {
        return Vec::new();
    }
    let spec = Path::new("spec");
    let before = old.map(|old| old.at("spec").at("template"));
    pod::get_warnings_for_pod_template(new.at("spec").at("template"), &spec.child("template"), before)
}

/// Validation options of the template of a spec, relaxed by what the old spec already has.
// upstream: pkg/api/pod/util.go GetValidationOptionsFromPodTemplate
pub(super) fn template_validation_options(old: Option<&Value>) -> PodValidationOptions {
    old.map_or_else(PodValidationOptions::default, |old| {
        PodValidationOptions::for_template_update(old.at("template"))
    })
}

/// Validates a selector that must be set and must not be empty.
// upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetSpec, ValidateDeploymentSpec
pub(super) fn validate_required_selector(spec: &Value, empty: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("selector");
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.push(Error::required(&field_path, ""));
        return;
    }
    label_selector::validate_label_selector(selector, InvalidValues::Refused, &field_path, errors);
    if label_selector::is_empty(selector) {
        errors.push(Error::invalid(
            &field_path,
            label_selector::error_value(selector),
            empty,
        ));
    }
}

/// The labels of the template must match the selector. Returns the selector if it is valid.
pub(super) fn validate_template_labels(
    spec: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Selector> {
    let selector = label::from_object(spec.get("selector")).ok()?;
    if !selector.is_empty() {
        validate_labels_match(&selector, spec.at("template"), &at.child("template"), errors);
    }
    Some(selector)
}

/// The labels of a template must match a selector.
// upstream: pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForReplicaSet
pub(super) fn validate_labels_match(
    selector: &Selector,
    template: &Value,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let metadata = template.at("metadata");
    if !selector.matches(metadata.entries("labels")) {
        let field_path = at.child("metadata");
        errors.push(Error::invalid(
            &field_path.child("labels"),
            metadata.at("labels"),
            SELECTOR_MISMATCH,
        ));
    }
}

/// Pods of a controller that keeps them running must have restartPolicy Always and no deadline.
// upstream: pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForReplicaSet, ValidateDaemonSetSpec
pub(super) fn validate_restarted_always(template: &Value, kind: &str, at: &Path<'_>, errors: &mut ErrorList) {
    let spec = template.at("spec");
    let field_path = at.child("spec");
    if spec.text("restartPolicy") != "Always" {
        errors.push(Error::not_supported(
            &field_path.child("restartPolicy"),
            spec.text("restartPolicy"),
            ["Always"],
        ));
    }
    if spec.has("activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Error::forbidden(
            &field_path.child("activeDeadlineSeconds"),
            detail,
        ));
    }
}

/// Validates selector and template of a ReplicaSet or a Deployment.
// upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetSpec, ValidateDeploymentSpec; "for deployment" and "in ReplicaSet" are upstream's words for both kinds
pub(super) fn validate_selector_and_template(
    spec: &Value,
    old: Option<&Value>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_required_selector(spec, "empty selector is invalid for deployment", at, errors);
    let template = spec.at("template");
    let field_path = at.child("template");
    if validate_template_labels(spec, at, errors).is_some() {
        pod::validate_pod_template_spec(template, &template_validation_options(old), &field_path, errors);
        validate_restarted_always(template, "ReplicaSet", &field_path, errors);
    } else {
        let selector_value = label_selector::error_value(spec.at("selector"));
        errors.push(Error::invalid(
            &at.child("selector"),
            selector_value,
            "invalid label selector",
        ));
    }
}

/// A template as the value of a field error: the metadata that is set, and every field of the pod spec.
pub(super) fn error_value(template: &Value) -> BadValue {
    let metadata = template.at("metadata");
    let fields = METADATA_FIELDS.iter().filter(|name| metadata.has(name));
    let mut fields: Vec<_> = fields
        .map(|name| format!("\"{name}\":{}", go::json(metadata.at(name))))
        .collect();
    if let BadValue::Printed(spec) = pod::internal_value("PodSpec", template.at("spec")) {
        fields.push(format!("\"Spec\":{spec}"));
    }
    BadValue::Printed(format!("{{{}}}", fields.join(",")))
}

/// Validates the counts in the status of a ReplicaSet or ReplicationController.
// upstream: pkg/apis/apps/validation/validation.go ValidateReplicaSetStatus
pub(super) fn validate_replica_counts(status: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    counts::validate_nonnegative_fields(status, &counts, at, errors);
    let all = "cannot be greater than status.replicas";
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    counts::validate_not_greater_than(status, &parts, "replicas", all, at, errors);
    let ready = "cannot be greater than readyReplicas";
    counts::validate_not_greater_than(status, &["availableReplicas"], "readyReplicas", ready, at, errors);
}
