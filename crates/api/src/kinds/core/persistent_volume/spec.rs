//! Validation of PersistentVolumeSpec, in PersistentVolumes and inline in VolumeAttachments.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::{
        core::{
            node_selector::{self, InvalidSelectorValues},
            persistent_volume_claim::{
                VOLUME_MODES, validate_access_modes, validate_class_name, validate_positive,
            },
            volume::source::{self, SourceValidator},
        },
        field_checks,
    },
    strategy::{ErrorList, Tree},
};

const ONE_TYPE: &str = "may not specify more than 1 volume type";
const INLINE: &str = "may not be specified in the context of inline volumes";

/// The holder of the spec.
// upstream: pkg/apis/core/validation/validation.go PersistentVolumeSpecValidationOptions
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeSpecHolder<'v> {
    /// A PersistentVolume.
    Volume {
        /// Its name.
        name: &'v str,
        /// Whether its node selector may have invalid values.
        values: InvalidSelectorValues,
    },
    /// A VolumeAttachment.
    Inline,
}

/// The sources in validation order. iSCSI also validates the name of the volume.
const SOURCES: [(&str, SourceValidator); 22] = [
    ("hostPath", source::host_path),
    ("gcePersistentDisk", source::gce_disk),
    ("awsElasticBlockStore", source::aws_disk),
    ("glusterfs", source::volume_glusterfs),
    ("flocker", source::flocker),
    ("nfs", source::nfs),
    ("rbd", source::rbd),
    ("quobyte", source::quobyte),
    ("cephfs", source::cephfs),
    ("iscsi", |_, _, _| {}),
    ("cinder", source::volume_cinder),
    ("fc", source::fibre_channel),
    ("flexVolume", source::flex),
    ("azureFile", source::volume_azure_file),
    ("vsphereVolume", source::vsphere),
    ("photonPersistentDisk", source::photon),
    ("portworxVolume", source::portworx),
    ("azureDisk", source::azure_disk),
    ("scaleIO", source::scale_io),
    ("local", source::local),
    ("storageos", source::volume_storage_os),
    ("csi", source::volume_csi),
];

/// The fields of the spec that are sources.
pub(super) fn source_names() -> impl Iterator<Item = &'static str> {
    SOURCES.iter().map(|(name, _)| *name)
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec
pub(crate) fn validate_volume_spec(
    spec: &Value,
    context: VolumeSpecHolder<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let inline = context == VolumeSpecHolder::Inline;
    if inline {
        if spec.has("claimRef") {
            errors.push(Error::forbidden(&at.child("claimRef"), INLINE));
        }
        if !spec.entries("capacity").is_empty() {
            errors.push(Error::forbidden(&at.child("capacity"), INLINE));
        }
        if !spec.has("csi") {
            let detail = "has to be specified in the context of inline volumes";
            errors.push(Error::required(&at.child("csi"), detail));
        }
    }
    if spec.items("accessModes").is_empty() {
        errors.push(Error::required(&at.child("accessModes"), ""));
    }
    validate_access_modes(spec, at, errors);
    if !inline {
        validate_capacity(spec, at, errors);
    }
    validate_reclaim_policy(spec, context, at, errors);
    if spec.has("nodeAffinity") {
        validate_volume_node_affinity(
            spec.at("nodeAffinity"),
            context,
            &at.child("nodeAffinity"),
            errors,
        );
    }
    validate_sources(spec, context, at, errors);
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" && is_root(spec.at("hostPath").text("path")) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(
            &at.child("persistentVolumeReclaimPolicy"),
            detail,
        ));
    }
    validate_classes(spec, context, at, errors);
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec
fn validate_capacity(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("capacity");
    let capacity = spec.entries("capacity");
    if capacity.is_empty() {
        errors.push(Error::required(&field_path, ""));
    }
    if capacity.len() != 1 || !capacity.contains_key("storage") {
        errors.push(Error::not_supported(
            &field_path,
            spec.at("capacity"),
            ["storage"],
        ));
    }
    for (name, value) in capacity {
        let amount = field_checks::quantity_or_zero(value);
        let field_path = field_path.key(name);
        if amount.value() < 0 {
            let detail = "must be a valid resource quantity";
            errors.push(Error::invalid(&field_path, amount.value(), detail));
        }
        validate_positive(&amount, &field_path, errors);
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec
fn validate_reclaim_policy(
    spec: &Value,
    context: VolumeSpecHolder<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let field_path = at.child("persistentVolumeReclaimPolicy");
    match spec.text("persistentVolumeReclaimPolicy") {
        "" => {}
        policy if context != VolumeSpecHolder::Inline => {
            field_checks::validate_supported(policy, &["Delete", "Recycle", "Retain"], &field_path, errors);
        }
        "Retain" => {}
        _ => errors.push(Error::forbidden(
            &field_path,
            "may only be Retain in the context of inline volumes",
        )),
    }
}

// upstream: pkg/apis/core/validation/validation.go validateVolumeNodeAffinity
fn validate_volume_node_affinity(
    affinity: &Value,
    context: VolumeSpecHolder<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let VolumeSpecHolder::Volume { values, .. } = context else {
        errors.push(Error::forbidden(at, INLINE));
        return;
    };
    let field_path = at.child("required");
    match affinity.at("required") {
        Value::Null => errors.push(Error::required(
            &field_path,
            "must specify required node constraints",
        )),
        required => node_selector::validate_node_selector(required, values, &field_path, errors),
    }
}

// upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec
fn validate_sources(spec: &Value, context: VolumeSpecHolder<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let mut has_source = false;
    for (field, validate) in SOURCES {
        let source = spec.at(field);
        if source.is_null() {
            continue;
        }
        let (field_path, surplus) = match field {
            "gcePersistentDisk" => ("persistentDisk", field),
            "cephfs" => (field, "cephFS"),
            _ => (field, field),
        };
        // upstream: pkg/apis/core/validation/validation.go ValidatePersistentVolumeSpec; a flexVolume is validated even if it is the second source
        if has_source && field != "flexVolume" {
            errors.push(Error::forbidden(&at.child(surplus), ONE_TYPE));
            continue;
        }
        has_source = true;
        let field_path = at.child(field_path);
        validate(source, &field_path, errors);
        if field == "iscsi" {
            let name = match context {
                VolumeSpecHolder::Volume { name, .. } => name,
                VolumeSpecHolder::Inline => "",
            };
            source::validate_iscsi_persistent_volume_source(source, name, &field_path, errors);
        }
        // An inline affinity is rejected elsewhere and does not count.
        if field == "local" && (context == VolumeSpecHolder::Inline || !spec.has("nodeAffinity")) {
            let detail = "Local volume requires node affinity";
            errors.push(Error::required(&at.child("nodeAffinity"), detail));
        }
    }
    if !has_source {
        errors.push(Error::required(at, "must specify a volume type"));
    }
}

/// Whether a path is the root, however it is written.
fn is_root(path: &str) -> bool {
    path.starts_with('/')
        && path.split('/').fold(0_usize, |depth, step| match step {
            "" | "." => depth,
            ".." => depth.saturating_sub(1),
            _ => depth + 1,
        }) == 0
}

fn validate_classes(spec: &Value, context: VolumeSpecHolder<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let inline = context == VolumeSpecHolder::Inline;
    let class = spec.text("storageClassName");
    let field_path = at.child("storageClassName");
    if inline && !class.is_empty() {
        errors.push(Error::forbidden(&field_path, INLINE));
    } else {
        validate_class_name(class, &field_path, errors);
    }
    let field_path = at.child("volumeMode");
    match spec.at("volumeMode").as_str() {
        Some(mode) if !inline => field_checks::validate_supported(mode, &VOLUME_MODES, &field_path, errors),
        None | Some("Filesystem") => {}
        Some(_) => errors.push(Error::forbidden(
            &field_path,
            "may not specify volumeMode other than Filesystem in the context of inline volumes",
        )),
    }
    let field_path = at.child("volumeAttributesClassName");
    if inline || !spec.has("volumeAttributesClassName") {
        return;
    }
    match spec.text("volumeAttributesClassName") {
        "" => errors.push(Error::required(&field_path, "an empty string is disallowed")),
        class => validate_class_name(class, &field_path, errors),
    }
    if !spec.has("csi") {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push(Error::required(&at.child("csi"), detail));
    }
}

/// A node affinity as the value of an error: the internal type has no JSON tags.
pub(super) fn node_affinity_value(affinity: &Value) -> BadValue {
    BadValue::Printed(match (affinity, affinity.at("required")) {
        (Value::Null, _) => "null".to_owned(),
        (_, Value::Null) => "{\"Required\":null}".to_owned(),
        (_, required) => format!("{{\"Required\":{}}}", node_selector::to_go_json(required)),
    })
}
