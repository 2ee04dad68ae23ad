//! Claims of volumes, as controllers see them.

use serde::{Deserialize, Serialize};

use super::{Condition, Projection, Selector, Storage, VolumeMode, persistent_volume::CLASS};

/// A claim of a volume.
pub type PersistentVolumeClaim = Projection<ClaimSpec, ClaimStatus>;

/// What is claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// How it is to be used.
    pub access_modes: Vec<Box<str>>,
    /// How much it is to hold.
    pub resources: ClaimResources,
    /// Which volumes are good; all, if it is not said.
    pub selector: Option<Selector>,
    /// Of which class; none is not the same as the empty one.
    pub storage_class_name: Option<Box<str>>,
    /// The volume; empty if it has none and asks for none.
    pub volume_name: Box<str>,
    /// Whether it is to be a file system or a device.
    pub volume_mode: VolumeMode,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<Box<str>>,
}

/// How much a claim is to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimResources {
    /// At least.
    pub requests: Storage,
}

/// What a claim has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// How far it is.
    pub phase: ClaimPhase,
    /// How its volume may be used.
    pub access_modes: Vec<Box<str>>,
    /// How much its volume holds.
    pub capacity: Option<Storage>,
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
    /// It had one, which is gone.
    Lost,
    /// It waits for a volume.
    #[default]
    #[serde(other)]
    Pending,
}

// --- PersistentVolumeClaim ---

impl PersistentVolumeClaim {
    /// Its class; empty if it has none.
    pub fn class(&self) -> &str {
        let class = self.metadata.annotation(CLASS);
        class
            .or(self.spec.storage_class_name.as_deref())
            .unwrap_or_default()
    }

    /// Whether it says of which class it is, be it of none.
    pub fn has_class(&self) -> bool {
        self.spec.storage_class_name.is_some() || self.metadata.annotation(CLASS).is_some()
    }
}
