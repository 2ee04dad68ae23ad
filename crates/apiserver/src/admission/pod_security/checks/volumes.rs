//! Pod Security checks of volume types and hostPath volumes.

use k3_api::strategy::Tree;
use serde_json::Value;

use super::super::violation::{Pod, UniqueValues, Violation, plural, quoted};

/// Kinds that are harmless.
const HARMLESS: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// All others, in the order in which a volume that is of several is named.
const HARMFUL: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

/// `hostPath` volumes.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_hostPathVolumes.go CheckHostPathVolumes
pub(super) fn host_path(pod: &Pod<'_>) -> Option<Violation> {
    let names = volumes_that(pod, |volume| volume.has("hostPath"));
    if names.is_empty() {
        return None;
    }
    let noun = plural("volume", "volumes", names.len());
    Some(Violation::new(
        "hostPath volumes",
        format!("{noun} {}", quoted(&names)),
    ))
}

/// Everything but the harmless ones.
// upstream: staging/src/k8s.io/pod-security-admission/policy/check_restrictedVolumes.go CheckRestrictedVolumes
pub(super) fn restricted(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = UniqueValues::new();
    let names = volumes_that(pod, |volume| {
        if HARMLESS.iter().any(|kind| volume.has(kind)) {
            return false;
        }
        let kind = HARMFUL.iter().find(|kind| volume.has(kind));
        kinds.insert((*kind.unwrap_or(&"unknown")).into());
        true
    });
    if names.is_empty() {
        return None;
    }
    Some(Violation::new(
        "restricted volume types",
        format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", kinds.len()),
            quoted(&kinds)
        ),
    ))
}

fn volumes_that<'p>(pod: &Pod<'p>, mut does: impl FnMut(&'p Value) -> bool) -> Vec<&'p str> {
    let volumes = pod.spec.items("volumes").iter();
    volumes
        .filter(|volume| does(volume))
        .map(|volume| volume.text("name"))
        .collect()
}
