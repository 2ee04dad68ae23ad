//! Claims of volumes.

use kubecontroller::{object::ObjectMeta, projected_object, selector::Selector};
use serde::{Deserialize, Serialize};

use crate::{Condition, StorageRequest, VolumeMode, persistent_volume::CLASS};

/// A claim of a volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PersistentVolumeClaimSpec,
    /// The status.
    pub status: PersistentVolumeClaimStatus,
}

projected_object!(PersistentVolumeClaim);

/// PersistentVolumeClaim spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpec {
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
pub struct PersistentVolumeClaimStatus {
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
    /// The annotation with the node that its volume is to be made for.
    pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    /// The annotation of a claim whose binding is complete.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

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

    /// Whether its binding to a volume is complete.
    // upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go isPVCFullyBound
    pub fn is_fully_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotation(Self::BIND_COMPLETED).is_some()
    }

    /// The node that its volume is to be made for.
    pub fn selected_node(&self) -> Option<&str> {
        self.metadata.annotation(Self::SELECTED_NODE)
    }
}
