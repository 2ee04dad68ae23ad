//! PersistentVolume: storage that outlives the pods that use it.

mod spec;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub(crate) use self::spec::{VolumeSpecHolder, validate_volume_spec};
use super::{
    node_selector::{self, InvalidSelectorValues},
    persistent_volume_claim::{class_of, short_modes},
    pod::resources::set_defaults_resource_list,
    volume::set_defaults_volume_source,
};
use crate::{
    apply::{FieldSet, managed::ResetFields},
    field::{Error, Path},
    kinds::{field_checks, go_values},
    strategy::{
        Column, ColumnDescription, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, age,
    },
    time::Time,
};

/// The legacy annotation for the storage class of a volume or claim.
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const MOUNT_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

/// The sources that support mount options.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Deprecated node labels that a node affinity may replace by their final names.
const FINAL_LABELS: [(&str, &str); 5] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
];

/// Removed volume types: the field, the name in the warning, and since when.
const REMOVED_SOURCES: [(&str, &str, &str); 6] = [
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

pub(crate) struct PersistentVolume;

// upstream: pkg/registry/core/persistentvolume/strategy.go persistentvolumeStrategy
impl RestStrategy for PersistentVolume {
    // upstream: pkg/apis/core/v1/defaults.go SetDefaults_PersistentVolume
    fn set_defaults(&self, object: &mut Value) {
        object.ensure_object("status").set_default("phase", "Pending");
        let spec = object.ensure_object("spec");
        spec.set_default("persistentVolumeReclaimPolicy", "Retain");
        spec.set_default("volumeMode", "Filesystem");
        default_sources(spec);
    }

    // upstream: pkg/registry/core/persistentvolume/strategy.go PrepareForCreate
    fn prepare_for_create(&self, object: &mut Value, at: &StrategyContext<'_>) {
        let now = at.now.truncated().to_string();
        object.set(
            "status",
            json!({"phase": "Pending", "lastPhaseTransitionTime": now}),
        );
    }

    fn prepare_for_status_update(&self, new: &mut Value, old: &Value, at: &StrategyContext<'_>) {
        new.copy_from("spec", old);
        let before = old.at("status");
        let since = "lastPhaseTransitionTime";
        let status = new.ensure_object("status");
        let same_phase = status.text("phase") == before.text("phase");
        if same_phase && !status.has(since) {
            status.copy_from(since, before);
        } else if !same_phase && (!status.has(since) || status.at(since) == before.at(since)) {
            status.set(since, at.now.truncated().to_string());
        }
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolume
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        validate_volume(object, InvalidSelectorValues::Checked, errors);
    }

    // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        let values = if node_selector::has_invalid_values(old.at_path("spec.nodeAffinity.required")) {
            InvalidSelectorValues::Taken
        } else {
            InvalidSelectorValues::Checked
        };
        validate_volume(new, values, errors);
        let new = new.at("spec");
        let old = old.at("spec");
        validate_source_immutable(new, old, errors);
        field_checks::validate_immutable_field(
            new.at("volumeMode"),
            old.at("volumeMode"),
            &Path::new("volumeMode"),
            errors,
        );
        if old.has("nodeAffinity")
            && !is_same_affinity_by_final_labels(new.at("nodeAffinity"), old.at("nodeAffinity"))
        {
            errors.push(Error::invalid(
                &Path::new("nodeAffinity"),
                spec::node_affinity_value(new.at("nodeAffinity")),
                "field is immutable, except for updating from beta label to GA",
            ));
        }
        let class = "volumeAttributesClassName";
        if old.has(class) && !new.has(class) {
            let field_path = Path::new("spec");
            let detail = "update from non-nil value to nil is forbidden";
            errors.push(Error::forbidden(&field_path.child(class), detail));
        }
    }

    // upstream: pkg/registry/core/persistentvolume/strategy.go WarningsOnCreate, WarningsOnUpdate
    fn warnings(&self, new: &Value, _: Option<&Value>) -> Vec<String> {
        get_warnings(new)
    }

    fn reset_fields(&self, subresource: &str) -> Option<ResetFields> {
        (subresource == "status").then(|| ResetFields::Fields(FieldSet::of_fields(&[&["spec"]])))
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::name(),
            Column::field("Capacity", "spec.capacity"),
            Column::field("Access Modes", "spec.accessModes"),
            Column::field("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
            Column::field("Status", "status.phase"),
            Column::field("Claim", "spec.claimRef"),
            Column::text("StorageClass", "StorageClass of the pv"),
            Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
            Column::field("Reason", "status.reason"),
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

    // upstream: pkg/printers/internalversion/printers.go printPersistentVolume
    fn row(&self, object: &Value, now: Time) -> Row {
        let metadata = object.at("metadata");
        let spec = object.at("spec");
        let status = object.at("status");
        let claim = match spec.at("claimRef") {
            Value::Null => String::new(),
            claim => format!("{}/{}", claim.text("namespace"), claim.text("name")),
        };
        let phase = if metadata.has("deletionTimestamp") {
            "Terminating"
        } else {
            status.text("phase")
        };
        let or_unset = |name: &str| spec.at(name).as_str().unwrap_or("<unset>");
        Row::new(vec![
            json!(metadata.text("name")),
            json!(field_checks::quantity_or_zero(spec.at("capacity").at("storage")).to_string()),
            json!(short_modes(spec)),
            json!(spec.text("persistentVolumeReclaimPolicy")),
            json!(phase),
            json!(claim),
            json!(class_of(object)),
            json!(or_unset("volumeAttributesClassName")),
            json!(status.text("reason")),
            age(metadata.text("creationTimestamp"), now),
            json!(or_unset("volumeMode")),
        ])
    }
}

/// Defaults capacity and source of a volume.
pub(crate) fn default_sources(spec: &mut Value) {
    let Value::Object(fields) = spec else { return };
    for (name, value) in fields {
        match name.as_str() {
            "capacity" => set_defaults_resource_list(value),
            name => set_defaults_volume_source(name, value),
        }
    }
}

fn validate_volume(object: &Value, values: InvalidSelectorValues, errors: &mut ErrorList) {
    let metadata = object.at("metadata");
    let context = VolumeSpecHolder::Volume {
        name: metadata.text("name"),
        values,
    };
    let spec = object.at("spec");
    validate_volume_spec(spec, context, &Path::new("spec"), errors);
    let mountable = MOUNTABLE.iter().any(|name| spec.has(name));
    if !mountable && metadata.entries("annotations").contains_key(MOUNT_ANNOTATION) {
        let field_path = Path::new("metadata");
        let detail = "may not specify mount options for this volume type";
        errors.push(Error::forbidden(
            &field_path.child("annotations").child(MOUNT_ANNOTATION),
            detail,
        ));
    }
}

/// The source is immutable, except that a CSI controller expand secret may be added.
// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeUpdate
fn validate_source_immutable(new: &Value, old: &Value, errors: &mut ErrorList) {
    if spec::source_names().all(|name| new.at(name) == old.at(name)) {
        return;
    }
    let secret = "controllerExpandSecretRef";
    let mut new = new.clone();
    if old.has("csi")
        && !old.at("csi").has(secret)
        && let Some(driver) = new.at_mut("csi")
    {
        driver.remove(secret);
    }
    if spec::source_names().any(|name| new.at(name) != old.at(name)) {
        let field_path = Path::new("spec");
        let changes = go_values::internal_diff("core", "PersistentVolumeSource", old, &new);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{changes}");
        errors.push(Error::forbidden(
            &field_path.child("persistentvolumesource"),
            detail,
        ));
    }
}

/// Whether two affinities differ only by final names of deprecated labels.
// upstream: pkg/apis/core/validation/validation.go validatePvNodeAffinity
fn is_same_affinity_by_final_labels(new: &Value, old: &Value) -> bool {
    if new == old {
        return true;
    }
    let mut new = new.clone();
    let before = old.at("required").items("nodeSelectorTerms");
    if let Some(required) = new.at_mut("required") {
        for (term, before) in required.items_mut("nodeSelectorTerms").iter_mut().zip(before) {
            for list in ["matchExpressions", "matchFields"] {
                for (requirement, before) in term.items_mut(list).iter_mut().zip(before.items(list)) {
                    let new = requirement.text("key");
                    let old = before.text("key");
                    if FINAL_LABELS.contains(&(old, new)) {
                        requirement.copy_from("key", before);
                    }
                }
            }
        }
    }
    new == *old
}

// upstream: pkg/api/persistentvolume/util.go warningsForPersistentVolumeSpecAndMeta
fn get_warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let annotations = object.at("metadata").entries("annotations");
    for (annotation, detail) in [
        (
            CLASS_ANNOTATION,
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            MOUNT_ANNOTATION,
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if annotations.contains_key(annotation) {
            warnings.push(format!("metadata.annotations[{annotation}]: {detail}"));
        }
    }
    let spec = object.at("spec");
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the \
             recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let field_path = Path::new("spec");
    let field_path = field_path.child("nodeAffinity");
    let field_path = field_path.child("required");
    let field_path = field_path.child("nodeSelectorTerms");
    let terms = spec.at_path("nodeAffinity.required").items("nodeSelectorTerms");
    for (index, term) in terms.iter().enumerate() {
        node_selector::get_warnings_for_term(term, &field_path.index(index), &mut warnings);
    }
    for (field, name, detail) in REMOVED_SOURCES {
        if spec.has(field) {
            warnings.push(format!("spec.{name}: {detail}"));
        }
    }
    warnings
}
