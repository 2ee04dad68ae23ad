//! What a persistent volume is: in volumes, and inline in attachments.

use serde_json::Value;

use crate::{
    field::{BadValue, Error, Path},
    kinds::{
        core::{
            node_selector::{self, Values},
            persistent_volume_claim::{VOLUME_MODES, access_modes, class_name, positive},
            volume::source::{self, Judge},
        },
        field_checks,
    },
    strategy::{ErrorList, Tree},
};

const ONE_TYPE: &str = "may not specify more than 1 volume type";
const INLINE: &str = "may not be specified in the context of inline volumes";

/// Where the spec stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Context<'v> {
    /// In a volume of this name.
    Volume {
        /// The name.
        name: &'v str,
        /// What its node selector may have.
        values: Values,
    },
    /// In an attachment.
    Inline,
}

/// The sources, in the order in which they are judged. Of iSCSI the name of the volume is judged, too.
const SOURCES: [(&str, Judge); 22] = [
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

/// What is wrong with the spec of a volume.
pub(crate) fn validate_volume_spec(
    spec: &Value,
    context: Context<'_>,
    at: &Path<'_>,
    errors: &mut ErrorList,
) {
    let inline = context == Context::Inline;
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
    access_modes(spec, at, errors);
    if !inline {
        capacity(spec, at, errors);
    }
    reclaim_policy(spec, inline, at, errors);
    if spec.has("nodeAffinity") {
        node_affinity(
            spec.at("nodeAffinity"),
            context,
            &at.child("nodeAffinity"),
            errors,
        );
    }
    sources(spec, context, at, errors);
    if spec.text("persistentVolumeReclaimPolicy") == "Recycle" && is_root(spec.at("hostPath").text("path")) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(
            &at.child("persistentVolumeReclaimPolicy"),
            detail,
        ));
    }
    classes(spec, inline, at, errors);
}

fn capacity(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
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
        positive(&amount, &field_path, errors);
    }
}

fn reclaim_policy(spec: &Value, inline: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let field_path = at.child("persistentVolumeReclaimPolicy");
    match spec.text("persistentVolumeReclaimPolicy") {
        "" => {}
        policy if !inline => {
            field_checks::validate_supported(policy, &["Delete", "Recycle", "Retain"], &field_path, errors)
        }
        "Retain" => {}
        _ => errors.push(Error::forbidden(
            &field_path,
            "may only be Retain in the context of inline volumes",
        )),
    }
}

fn node_affinity(affinity: &Value, context: Context<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let Context::Volume { values, .. } = context else {
        errors.push(Error::forbidden(at, INLINE));
        return;
    };
    let field_path = at.child("required");
    match affinity.at("required") {
        Value::Null => errors.push(Error::required(
            &field_path,
            "must specify required node constraints",
        )),
        required => node_selector::validate(required, values, &field_path, errors),
    }
}

fn sources(spec: &Value, context: Context<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for (field, judge) in SOURCES {
        let source = spec.at(field);
        if source.is_null() {
            continue;
        }
        let (field_path, surplus) = match field {
            "gcePersistentDisk" => ("persistentDisk", field),
            "cephfs" => (field, "cephFS"),
            _ => (field, field),
        };
        // A flex volume is judged though it may be the second source.
        if found && field != "flexVolume" {
            errors.push(Error::forbidden(&at.child(surplus), ONE_TYPE));
            continue;
        }
        found = true;
        let field_path = at.child(field_path);
        judge(source, &field_path, errors);
        if field == "iscsi" {
            let name = match context {
                Context::Volume { name, .. } => name,
                Context::Inline => "",
            };
            source::volume_iscsi(source, name, &field_path, errors);
        }
        // Inline, the affinity is refused and does not count.
        if field == "local" && (context == Context::Inline || !spec.has("nodeAffinity")) {
            let detail = "Local volume requires node affinity";
            errors.push(Error::required(&at.child("nodeAffinity"), detail));
        }
    }
    if !found {
        errors.push(Error::required(at, "must specify a volume type"));
    }
}

/// Whether a path is `/`, in one way of writing it or another.
fn is_root(path: &str) -> bool {
    path.starts_with('/')
        && path.split('/').fold(0_usize, |depth, step| match step {
            "" | "." => depth,
            ".." => depth.saturating_sub(1),
            _ => depth + 1,
        }) == 0
}

fn classes(spec: &Value, inline: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let class = spec.text("storageClassName");
    let field_path = at.child("storageClassName");
    if inline && !class.is_empty() {
        errors.push(Error::forbidden(&field_path, INLINE));
    } else {
        class_name(class, &field_path, errors);
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
        class => class_name(class, &field_path, errors),
    }
    if !spec.has("csi") {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.push(Error::required(&at.child("csi"), detail));
    }
}

/// A node affinity as errors show it.
pub(super) fn printed_affinity(affinity: &Value) -> BadValue {
    BadValue::Printed(match (affinity, affinity.at("required")) {
        (Value::Null, _) => "null".to_owned(),
        (_, Value::Null) => "{\"Required\":null}".to_owned(),
        (_, required) => format!("{{\"Required\":{}}}", node_selector::printed(required)),
    })
}
