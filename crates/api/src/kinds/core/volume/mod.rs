//! The volumes of pods, and the sources that they share with persistent volumes.
//!
//! Promises: a volume has one source; each source is judged by a rule of its own, found in one table.

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

use self::source::Judge;
pub(crate) use self::{
    default::{default_source, default_volume},
    field_ref::{Place, object_field, resource_field},
};
use crate::kinds::field_checks;
use crate::{
    field::{Error, Path},
    go,
    name::NameFormat,
    strategy::{ErrorList, Tree},
};

/// What is told of every source but the first.
const ONE_TYPE: &str = "may not specify more than 1 volume type";

/// A source a volume may have.
struct Source {
    /// Its field.
    field: &'static str,
    /// The place that errors about its parts name.
    field_path: &'static str,
    /// The place that is named when it is one too many.
    surplus: &'static str,
    validate: Judge,
}

const fn source(field: &'static str, validate: Judge) -> Source {
    Source {
        field,
        field_path: field,
        surplus: field,
        validate,
    }
}

/// In the order in which they are judged: the first that is there is the one the volume has.
const SOURCES: &[Source] = &[
    source("emptyDir", source::empty_dir),
    source("hostPath", source::host_path),
    source("gitRepo", source::git_repo),
    Source {
        field_path: "persistentDisk",
        ..source("gcePersistentDisk", source::gce_disk)
    },
    source("awsElasticBlockStore", source::aws_disk),
    source("secret", files::secret),
    source("nfs", source::nfs),
    source("iscsi", iscsi::of_pod),
    source("glusterfs", source::glusterfs),
    source("flocker", source::flocker),
    source("persistentVolumeClaim", source::claim),
    source("rbd", source::rbd),
    source("cinder", source::cinder),
    Source {
        surplus: "cephFS",
        ..source("cephfs", source::cephfs)
    },
    source("quobyte", source::quobyte),
    Source {
        surplus: "downwarAPI",
        ..source("downwardAPI", files::downward_api)
    },
    source("fc", source::fibre_channel),
    source("flexVolume", source::flex),
    source("configMap", files::config_map),
    source("azureFile", source::azure_file),
    source("vsphereVolume", source::vsphere),
    source("photonPersistentDisk", source::photon),
    source("portworxVolume", source::portworx),
    source("azureDisk", source::azure_disk),
    source("storageos", source::storage_os),
    source("projected", projected::projected),
    source("scaleIO", source::scale_io),
    source("csi", source::csi),
    source("ephemeral", source::ephemeral),
    source("image", source::image),
];

/// What is wrong with the volumes of a pod, or of a template without a name. Gives those without faults: nothing else can
/// be mounted, and no two of them have one name.
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
        // A volume with faults takes no name: a second one by that name is no duplicate.
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

/// The claim that is made for an ephemeral volume is named after pod and volume.
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
