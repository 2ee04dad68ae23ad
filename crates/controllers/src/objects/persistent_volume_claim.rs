//! Claims of volumes, as controllers see them.

use kubecontroller::selector::Selector;
use serde::{Deserialize, Serialize};

use super::{Condition, Projection, StorageRequest, VolumeMode, persistent_volume::CLASS};

/// A claim of a volume.
pub type PersistentVolumeClaim = Projection<ClaimSpec, ClaimStatus>;

/// PersistentVolumeClaim spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// Access modes.
    pub access_modes: Vec<Box<str>>,
    /// How much it is to hold.
    pub resources: ClaimResources,
    /// Selects volumes; all if not set.
    pub selector: Option<Selector>,
    /// Of which class; none is not the same as the empty one.
    pub storage_class_name: Option<Box<str>>,
    /// The volume; empty if it is unbound and requests none.
    pub volume_name: Box<str>,
    /// volumeMode.
    pub volume_mode: VolumeMode,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<Box<str>>,
}

/// How much a claim is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// At least.
    pub requests: StorageRequest,
}

/// PersistentVolumeClaim status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// How far it is.
    pub phase: ClaimPhase,
    /// How its volume may be used.
    pub access_modes: Vec<Box<str>>,
    /// How much its volume holds.
    pub capacity: Option<StorageRequest>,
    /// The class of the attributes of its volume.
    pub current_volume_attributes_class_name: Option<Box<str>>,
    /// Of which class the attributes of its volume are to become.
    pub modify_volume_status: Option<ModifyVolumeStatus>,
    /// The conditions.
    pub conditions: Vec<Condition>,
}

/// How far the change of the attributes of a volume is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModifyVolumeStatus {
    /// The class.
    pub target_volume_attributes_class_name: Box<str>,
}

/// How far a claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimPhase {
    /// It has one.
    Bound,
    /// Its volume was deleted.
    Lost,
    /// It waits for a volume.
    #[default]
    #[serde(other)]
    Pending,
}

// --- PersistentVolumeClaim ---

impl PersistentVolumeClaim {
    /// Its class; empty if it has none.
    // upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go GetPersistentVolumeClaimClass
    pub fn class(&self) -> &str {
        let class = self.metadata.annotation(CLASS);
        class
            .or(self.spec.storage_class_name.as_deref())
            .unwrap_or_default()
    }

    /// Whether it has a class, possibly the empty one.
    // upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go PersistentVolumeClaimHasClass
    pub fn has_class(&self) -> bool {
        self.spec.storage_class_name.is_some() || self.metadata.annotation(CLASS).is_some()
    }
}
