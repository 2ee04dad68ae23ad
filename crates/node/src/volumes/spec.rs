//! Volume specs: a volume of a pod, or the PersistentVolume that its claim is bound to.
// upstream: pkg/volume/plugins.go Spec

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeSpec, Volume};
use serde::Serialize;
use serde_json::Value;

/// Fields of a PersistentVolumeSpec that are not volume types.
const COMMON_FIELDS: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// What a plugin sets up.
pub(super) struct VolumeSpec<'a> {
    source: VolumeSource<'a>,
    /// Whether the pod uses its claim read-only.
    pub(super) read_only: bool,
}

enum VolumeSource<'a> {
    Pod(&'a Volume),
    Persistent(Arc<PersistentVolume>),
}

// --- VolumeSpec ---

impl<'a> VolumeSpec<'a> {
    /// A volume without a claim.
    // upstream: pkg/volume/plugins.go NewSpecFromVolume
    pub(super) fn from_volume(volume: &'a Volume) -> Self {
        VolumeSpec {
            source: VolumeSource::Pod(volume),
            read_only: false,
        }
    }

    /// The PersistentVolume of a claim.
    // upstream: pkg/volume/plugins.go NewSpecFromPersistentVolume
    pub(super) fn from_persistent_volume(volume: Arc<PersistentVolume>) -> Self {
        VolumeSpec {
            source: VolumeSource::Persistent(volume),
            read_only: false,
        }
    }

    /// Mounts the volume read-only, or not.
    pub(super) fn with_read_only(self, read_only: bool) -> Self {
        VolumeSpec { read_only, ..self }
    }

    /// Upstream's `volumeSpecName`: the name of the PersistentVolume, or of the volume in the pod if it has no claim.
    // upstream: pkg/volume/plugins.go Name
    pub(super) fn name(&self) -> &str {
        match &self.source {
            VolumeSource::Pod(volume) => &volume.name,
            VolumeSource::Persistent(volume) => volume.metadata.name.as_deref().unwrap_or_default(),
        }
    }

    /// The volume in the pod, if it has no claim.
    pub(super) fn volume(&self) -> Option<&'a Volume> {
        match &self.source {
            VolumeSource::Pod(volume) => Some(volume),
            VolumeSource::Persistent(_) => None,
        }
    }

    /// The PersistentVolume, if the volume has a claim.
    pub(super) fn persistent_volume(&self) -> Option<&PersistentVolume> {
        match &self.source {
            VolumeSource::Pod(_) => None,
            VolumeSource::Persistent(volume) => Some(volume),
        }
    }

    /// The spec of the PersistentVolume, if the volume has a claim.
    pub(super) fn persistent_volume_spec(&self) -> Option<&PersistentVolumeSpec> {
        self.persistent_volume().and_then(|volume| volume.spec.as_ref())
    }

    /// Whether one pod at a time may use the volume.
    pub(super) fn is_read_write_once_pod(&self) -> bool {
        let access_modes = self
            .persistent_volume_spec()
            .and_then(|spec| spec.access_modes.as_deref());
        access_modes == Some(&["ReadWriteOncePod".to_owned()])
    }

    /// The type of the volume, for messages: the name of the field that is set.
    pub(super) fn volume_type(&self) -> String {
        match &self.source {
            VolumeSource::Pod(volume) => type_field(volume, &["name"]),
            VolumeSource::Persistent(volume) => type_field(&volume.spec, &COMMON_FIELDS),
        }
    }
}

/// The first field of an object that is not listed.
fn type_field(object: &impl Serialize, common_fields: &[&str]) -> String {
    let fields = match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let mut names = fields.into_iter().map(|(name, _)| name);
    names
        .find(|name| !common_fields.contains(&name.as_str()))
        .unwrap_or_else(|| "a volume without a type".to_owned())
}
