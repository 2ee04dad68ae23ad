//! Volumes of pods, and sources that they share with PersistentVolumes.
//!
//! A volume has one source; each source has one validation function in a table.

mod default;
mod field_ref;
mod files;
mod iscsi;
mod projected;
pub(crate) mod source;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::Value;

use self::source::SourceValidator;
pub(crate) use self::{
    default::{set_defaults_volume, set_defaults_volume_source},
    field_ref::{ResourceRefHolder, validate_object_field_selector, validate_resource_field_selector},
};
use crate::kinds::field_checks;
use crate::{
    field::{Error, Path},
    go,
    name::NameFormat,
    strategy::{ErrorList, Tree},
};

/// The error of every source but the first.
const ONE_TYPE: &str = "may not specify more than 1 volume type";

/// A volume source.
struct VolumeSource {
    /// Its field.
    field: &'static str,
    /// The field path of errors inside the source.
    field_path: &'static str,
    /// The field path of the error if it is one source too many.
    surplus: &'static str,
    validate: SourceValidator,
}

const fn source(field: &'static str, validate: SourceValidator) -> VolumeSource {
    VolumeSource {
        field,
        field_path: field,
        surplus: field,
        validate,
    }
}

/// In validation order: the first that is set is the source of the volume.
const SOURCES: &[VolumeSource] = &[
    source("emptyDir", source::empty_dir),
    source("hostPath", source::host_path),
    source("gitRepo", source::git_repo),
    VolumeSource {
        field_path: "persistentDisk",
        ..source("gcePersistentDisk", source::gce_disk)
    },
    source("awsElasticBlockStore", source::aws_disk),
    source("secret", files::validate_secret_volume_source),
    source("nfs", source::nfs),
    source("iscsi", iscsi::validate_iscsi_volume_source),
    source("glusterfs", source::glusterfs),
    source("flocker", source::flocker),
    source("persistentVolumeClaim", source::claim),
    source("rbd", source::rbd),
    source("cinder", source::cinder),
    VolumeSource {
        surplus: "cephFS",
        ..source("cephfs", source::cephfs)
    },
    source("quobyte", source::quobyte),
    VolumeSource {
        surplus: "downwarAPI",
        ..source("downwardAPI", files::validate_downward_api_volume_source)
    },
    source("fc", source::fibre_channel),
    source("flexVolume", source::flex),
    source("configMap", files::validate_config_map_volume_source),
    source("azureFile", source::azure_file),
    source("vsphereVolume", source::vsphere),
    source("photonPersistentDisk", source::photon),
    source("portworxVolume", source::portworx),
    source("azureDisk", source::azure_disk),
    source("storageos", source::storage_os),
    source("projected", projected::validate_projected_volume_source),
    source("scaleIO", source::scale_io),
    source("csi", source::csi),
    source("ephemeral", source::ephemeral),
    source("image", source::image),
];

/// Validates the volumes of a pod, or of a template (`pod` is empty then). Returns the valid ones: only these can be mounted.
pub(crate) fn validate_volumes<'v>(
    volumes: &'v [Value],
    at: &Path<'_>,
    pod_metadata: &Value,
    errors: &mut ErrorList,
) -> Vec<&'v Value> {
    let pod = pod_metadata.text("name");
    let mut sound: Vec<&Value> = Vec::with_capacity(volumes.len());
    let mut sound_names: HashSet<&str> = HashSet::new();
    let ephemeral = volumes.iter().filter(|volume| volume.has("ephemeral"));
    let ephemeral: HashSet<&str> = ephemeral.map(|volume| volume.text("name")).collect();
    for (index, volume) in volumes.iter().enumerate() {
        let field_path = at.index(index);
        let before = errors.len();
        let name = volume.text("name");
        validate_source(volume, &field_path, pod, errors);
        if name.is_empty() {
            errors.push(Error::required(&field_path.child("name"), ""));
        } else {
            field_checks::validate_dns1123_label(name, &field_path.child("name"), errors);
        }
        if sound_names.contains(name) {
            errors.push(Error::duplicate(&field_path.child("name"), name));
        }
        // An invalid volume does not reserve its name: a second one of that name is no duplicate.
        if errors.len() == before {
            sound.push(volume);
            sound_names.insert(name);
        }
        let claim = volume.at("persistentVolumeClaim").text("claimName");
        let is_created = claim
            .strip_prefix(pod)
            .and_then(|rest| rest.strip_prefix('-'))
            .is_some_and(|rest| ephemeral.contains(rest));
        if !pod.is_empty() && volume.has("persistentVolumeClaim") && is_created {
            let field_path = field_path.child("persistentVolumeClaim");
            errors.push(Error::invalid(
                &field_path.child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            ));
        }
    }
    sound
}

// upstream: pkg/apis/core/validation/validation.go validateVolumeSource
fn validate_source(volume: &Value, at: &Path<'_>, pod: &str, errors: &mut ErrorList) {
    let name = volume.text("name");
    let mut found = false;
    for source in SOURCES {
        let Some(value) = volume.get(source.field).filter(|value| !value.is_null()) else {
            continue;
        };
        if found {
            errors.push(Error::forbidden(&at.child(source.surplus), ONE_TYPE));
        } else {
            (source.validate)(value, &at.child(source.field_path), errors);
            if source.field == "ephemeral" {
                claim_name(pod, name, at, errors);
            }
        }
        if source.field == "iscsi" {
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
            if value.has("initiatorName") && iscsi::is_long(name, value) {
                errors.push(Error::invalid(&at.child("name"), name, detail));
            }
        }
        found = true;
    }
    if !found {
        errors.push(Error::required(at, "must specify a volume type"));
    }
}

/// The claim of an ephemeral volume is named after pod and volume.
// upstream: pkg/apis/core/validation/validation.go validateVolumeSource
fn claim_name(pod: &str, volume: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if pod.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{pod}-{volume}");
    for msg in NameFormat::Subdomain.name(&claim) {
        let detail = format!("PVC name {}: {msg}", go::quote(&claim));
        errors.push(Error::invalid(&at.child("name"), volume, detail));
    }
}
