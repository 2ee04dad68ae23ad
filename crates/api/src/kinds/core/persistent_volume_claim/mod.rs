//! PersistentVolumeClaim: a request for storage.

mod data_source;
mod spec;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub(crate) use self::spec::{
    ClaimSpecValidationOptions, VOLUME_MODES, set_defaults_claim_spec, validate_access_modes,
    validate_claim_spec, validate_claim_template, validate_class_name, validate_positive,
    validate_template_metadata,
};
use super::{persistent_volume::CLASS_ANNOTATION, pod::resources::set_defaults_resource_list};
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::{field_checks, go_values},
    selector::label::{InvalidValues, UnknownOperators, validate as validate_selector},
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, age,
    },
    time::Time,
};

/// Resize states of a resource, in the order of error messages.
const RESIZES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub(crate) struct PersistentVolumeClaim;

// upstream: pkg/registry/core/persistentvolumeclaim/strategy.go persistentvolumeclaimStrategy
impl RestStrategy for PersistentVolumeClaim {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_PersistentVolumeClaim
    fn set_defaults(&self, object: &mut Value) {
        default_claim(object);
    }

    // upstream: pkg/registry/core/persistentvolumeclaim/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, _: &StrategyContext<'_>) {
        object.set("status", json!({"phase": "Pending"}));
        let spec = object.ensure_object("spec");
        data_source::drop_and_normalize_data_sources(spec, &Value::Null);
    }

    // upstream: pkg/registry/core/persistentvolumeclaim/strategy.go PrepareForUpdate
    fn prepare_for_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("status", old);
        data_source::drop_and_normalize_data_sources(new.ensure_object("spec"), old.at("spec"));
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, _: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        if !old.at("status").has("healthStatus") {
            new.ensure_object("status").remove("healthStatus");
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaim
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let spec = object.at("spec");
        validate_claim_spec(
            spec,
            ClaimSpecValidationOptions::default(),
            &Path::new("spec"),
            errors,
        );
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let options = validation_options(old.at("spec"));
        validate_claim_spec(new.at("spec"), options, &Path::new("spec"), errors);
        validate_claim_update(new, old, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimStatusUpdate
    fn validate_status_update(
        &self,
        new: &Value,
        _: &Value,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_status_update(new, errors);
    }

    // upstream: pkg/registry/core/persistentvolumeclaim/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let annotations = new.at("metadata").entries("annotations");
        if annotations.contains_key(CLASS_ANNOTATION) {
            let detail = "deprecated since v1.8; use \"storageClassName\" attribute instead";
            warnings.push(format!("metadata.annotations[{CLASS_ANNOTATION}]: {detail}"));
        }
        spec_warnings(new.at("spec"), &Path::new("spec"), &mut warnings);
        warnings
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])))
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("Status", "status.phase"),
            Column::field("Volume", "spec.volumeName"),
            Column::field("Capacity", "status.capacity"),
            Column::field("Access Modes", "status.accessModes"),
            Column::text("StorageClass", "StorageClass of the pvc"),
            Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
            Column::age(),
            Column::new(
                "VolumeMode",
                "string",
                ColumnDescription::Field("spec.volumeMode"),
            )
            .wide(),
        ];
        COLUMNS
    }

    // upstream: pkg/printers/internalversion/printers.go printPersistentVolumeClaim
    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let status = object.at("status");
        let phase = if metadata.has("deletionTimestamp") {
            "Terminating"
        } else {
            status.text("phase")
        };
        let volume = spec.text("volumeName");
        let (capacity, modes) = if volume.is_empty() {
            (String::new(), String::new())
        } else {
            let capacity = field_checks::quantity_or_zero(status.at("capacity").at("storage"));
            (capacity.to_string(), short_modes(status))
        };
        let or_unset = |name: &str| spec.at(name).as_str().unwrap_or("<unset>");
        Row::new(vec![
            json!(metadata.text("name")),
            json!(phase),
            json!(volume),
            json!(capacity),
            json!(modes),
            json!(class_of(object)),
            json!(or_unset("volumeAttributesClassName")),
            age(metadata.text("creationTimestamp"), now),
            json!(or_unset("volumeMode")),
        ])
    }
}

/// Defaults a claim, or a claim template of a StatefulSet.
pub(crate) fn default_claim(claim: &mut Value) {
    let status = claim.ensure_object("status");
    status.set_default("phase", "Pending");
    for name in ["capacity", "allocatedResources"] {
        if let Some(list) = status.at_mut(name) {
            set_defaults_resource_list(list);
        }
    }
    set_defaults_claim_spec(claim.ensure_object("spec"));
}

/// Access modes in short form, such as `RWO`.
pub(crate) fn short_modes(of: &Value) -> String {
    let mut short = String::new();
    for (mode, letters) in [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ] {
        if of.texts("accessModes").any(|one| one == mode) {
            if !short.is_empty() {
                short.push(',');
            }
            short.push_str(letters);
        }
    }
    short
}

/// The storage class of a volume or claim: the legacy annotation, else the field.
pub fn class_of(object: &Value) -> &str {
    let annotations = object.at("metadata").entries("annotations");
    match annotations.get(CLASS_ANNOTATION) {
        Some(class) => class.as_str().unwrap_or_default(),
        None => object.at("spec").text("storageClassName"),
    }
}

pub(crate) fn spec_warnings(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let field_path = at.child("resources");
    for list in ["requests", "limits"] {
        let amount = field_checks::quantity_or_zero(spec.at("resources").at(list).at("storage"));
        if amount.milli_value() % 1000 != 0 {
            warnings.push(format!(
                "{}: fractional byte value \"{amount}\" is invalid, must be an integer",
                field_path.child(list).key("storage"),
            ));
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidationOptionsForPersistentVolumeClaim
fn validation_options(old: &Value) -> ClaimSpecValidationOptions {
    let field_path = Path::new("selector");
    let msgs = validate_selector(
        &field_path,
        old.at("selector"),
        InvalidValues::Refused,
        UnknownOperators::Refused,
    );
    ClaimSpecValidationOptions {
        invalid_values: !msgs.is_empty(),
        invalid_group: ["dataSource", "dataSourceRef"]
            .iter()
            .any(|name| old.at(name).has("apiGroup")),
    }
}

/// The spec of a claim is immutable, except for the bound volume, a first storage class, the attributes class and the size.
// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimUpdate
fn validate_claim_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let field_path = Path::new("spec");
    let mut after = new.at("spec").clone();
    let mut before = old.at("spec").clone();
    data_source::normalize_data_sources(&mut before);
    if before.text("volumeName").is_empty() {
        before.copy_from("volumeName", &after);
    }
    validate_class_update(new, old, &mut after, errors);
    let size = requested_storage(new.at("spec"));
    let old_size = requested_storage(old.at("spec"));
    if new.at("status").text("phase") == "Bound" {
        if let Some(requests) = after.ensure_object("resources").at_mut("requests") {
            requests.set("storage", old_size.to_string());
        }
        after.copy_from("volumeAttributesClassName", &before);
    }
    ignore_equal_quantities(&mut after, &before);
    if after != before {
        let changes = go_values::internal_diff("core", "PersistentVolumeClaimSpec", &before, &after);
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(Error::forbidden(&field_path, format!("{detail}\n{changes}")));
    }
    let capacity = field_checks::quantity_or_zero(old.at("status").at("capacity").at("storage"));
    if size < old_size && size <= capacity {
        let field_path = field_path.child("resources");
        let field_path = field_path.child("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(Error::forbidden(&field_path.child("storage"), detail));
    }
    let new = new.at("spec");
    let before = old.at("spec");
    let mode = Path::new("volumeMode");
    field_checks::validate_immutable_field(new.at("volumeMode"), before.at("volumeMode"), &mode, errors);
    let class = "volumeAttributesClassName";
    let applied = old.at("status").has("currentVolumeAttributesClassName");
    if applied && new.at(class) != before.at(class) && new.text(class).is_empty() {
        let what = if new.has(class) { "empty string" } else { "nil" };
        let detail =
            format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        errors.push(Error::forbidden(&field_path.child(class), detail));
    }
}

/// A class may move from the legacy annotation to the field, and a claim without a class may get one.
// upstream: pkg/apis/core/validation/validation.go validateStorageClassUpgradeFromAnnotation, validateStorageClassUpgradeFromNil
fn validate_class_update(new: &Value, old: &Value, after: &mut Value, errors: &mut ErrorList) {
    let class = "storageClassName";
    let annotation = |object: &'_ Value| {
        let annotations = object.at("metadata").entries("annotations");
        annotations
            .get(CLASS_ANNOTATION)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let before = annotation(old);
    let annotated = annotation(new);
    let gets_one = !old.at("spec").has(class) && new.at("spec").has(class);
    let is_annotated = before.as_deref() == Some(new.at("spec").text(class));
    if gets_one && is_annotated && (annotated.is_none() || annotated == before) {
        after.remove(class);
        return;
    }
    let annotated = annotated.unwrap_or_default();
    if annotated != before.clone().unwrap_or_default() {
        let field_path = Path::new("metadata");
        errors.push(Error::invalid(
            &field_path.child("annotations").child(CLASS_ANNOTATION),
            annotated,
            field_checks::IMMUTABLE,
        ));
    }
    if gets_one && (before.is_none() || is_annotated) {
        after.remove(class);
    }
}

fn requested_storage(spec: &Value) -> crate::quantity::Quantity {
    field_checks::quantity_or_zero(spec.at("resources").at("requests").at("storage"))
}

/// Equal quantities in another notation are no change.
fn ignore_equal_quantities(after: &mut Value, before: &Value) {
    for list in ["limits", "requests"] {
        let old = before.at("resources").at(list);
        let Some(Value::Object(new)) = after
            .at_mut("resources")
            .and_then(|resources| resources.at_mut(list))
        else {
            continue;
        };
        for (name, amount) in new {
            if old.has(name)
                && field_checks::quantity_or_zero(amount) == field_checks::quantity_or_zero(old.at(name))
            {
                *amount = old.at(name).clone();
            }
        }
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeClaimStatusUpdate
fn validate_status_update(new: &Value, errors: &mut ErrorList) {
    if new.at("spec").items("accessModes").is_empty() {
        let field_path = Path::new("Spec");
        errors.push(Error::required(&field_path.child("accessModes"), ""));
    }
    let status = new.at("status");
    let at = Path::new("status");
    let field_path = at.child("capacity");
    for (name, amount) in status.entries("capacity") {
        validate_basic_resource(amount, &field_path.key(name), errors);
    }
    let field_path = at.child("allocatedResourceStatuses");
    for (name, resize) in status.entries("allocatedResourceStatuses") {
        validate_resource_key(name, &field_path, errors);
        if !resize.as_str().is_some_and(|resize| RESIZES.contains(&resize)) {
            errors.push(Error::not_supported(&field_path, name, RESIZES));
        }
    }
    let field_path = at.child("allocatedResources");
    for (name, amount) in status.entries("allocatedResources") {
        if validate_resource_key(name, &field_path, errors)
            && validate_basic_resource(amount, &field_path.key(name), errors)
        {
            let amount = field_checks::quantity_or_zero(amount);
            if amount.sign().is_lt() {
                let detail = "must be greater than or equal to 0";
                errors.push(Error::invalid(&field_path.key(name), amount.to_string(), detail));
            }
        }
    }
}

/// Whether a quantity is valid; reports an error if not.
// upstream: pkg/apis/core/validation/validation.go validateBasicResource
fn validate_basic_resource(amount: &Value, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let value = field_checks::quantity_or_zero(amount).value();
    if value < 0 {
        errors.push(Error::invalid(at, value, "must be a valid resource quantity"));
    }
    value >= 0
}

/// Whether it is a resource of a claim: storage, or a name with a custom domain. Reports an error if not.
// upstream: pkg/apis/core/validation/validation.go validatePersistentVolumeClaimResourceKey
fn validate_resource_key(name: &str, at: &Path<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.len();
    field_checks::validate_qualified_name(name, at, errors);
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    if errors.len() == before && is_native && name != "storage" {
        errors.push(Error::not_supported(at, name, ["storage"]));
    }
    errors.len() == before
}
