//! PersistentVolumes.

use k3_quantity::Quantity;
use kubecontroller::{object::ObjectMeta, projected_object, selector::NodeSelector};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::PersistentVolumeClaim;

/// A persistent volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// The metadata.
    pub metadata: ObjectMeta,
    /// The spec.
    pub spec: PersistentVolumeSpec,
    /// The status.
    pub status: PersistentVolumeStatus,
}

projected_object!(PersistentVolume);

/// The beta annotation for the class, which takes precedence over the field.
pub(crate) const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What a volume is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeSpec {
    /// How much it holds.
    pub capacity: StorageRequest,
    /// How it may be used.
    pub access_modes: Vec<Box<str>>,
    /// claimRef.
    pub claim_ref: Option<ClaimRef>,
    /// persistentVolumeReclaimPolicy.
    #[serde(rename = "persistentVolumeReclaimPolicy")]
    pub reclaim_policy: Box<str>,
    /// Its class.
    pub storage_class_name: Box<str>,
    /// Whether it is a file system or a device.
    pub volume_mode: VolumeMode,
    /// The class of its attributes.
    pub volume_attributes_class_name: Option<Box<str>>,
    /// A hostPath volume.
    pub host_path: Option<HostPath>,
    /// It is on a server of files.
    pub nfs: Option<IgnoredAny>,
    /// A driver looks after it.
    pub csi: Option<CsiVolumeSource>,
    /// Which nodes reach it.
    pub node_affinity: VolumeNodeAffinity,
}

/// The driver of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsiVolumeSource {
    /// Its name.
    pub driver: Box<str>,
    /// What the driver calls the volume.
    pub volume_handle: Box<str>,
}

/// Which nodes reach a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeNodeAffinity {
    /// The nodes; all if not set.
    pub required: Option<NodeSelector>,
}

/// An amount of storage, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StorageRequest {
    /// The amount; empty if not set.
    pub storage: Box<str>,
}

/// A claim, as a volume names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRef {
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The uid; empty if a user has named the claim, and it was not bound yet.
    pub uid: Box<str>,
}

/// A hostPath volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HostPath {
    /// Where.
    pub path: Box<str>,
}

/// Whether a volume is a file system or a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum VolumeMode {
    /// A device.
    Block,
    /// A file system.
    #[default]
    #[serde(other)]
    Filesystem,
}

/// How a volume is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeStatus {
    /// How far it is in its life.
    pub phase: VolumePhase,
}

/// How far a volume is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumePhase {
    /// It waits for a claim.
    Available,
    /// It has one.
    Bound,
    /// Its claim was deleted.
    Released,
    /// Its claim was deleted, and reclaiming failed.
    Failed,
    /// Not processed yet.
    #[default]
    #[serde(other)]
    Pending,
}

// --- StorageRequest ---

impl StorageRequest {
    /// The amount in bytes. An invalid value counts as zero; validation rejects it.
    pub fn amount(&self) -> Quantity {
        self.storage.parse().unwrap_or_else(|_| Quantity::zero())
    }
}

// --- PersistentVolume ---

impl PersistentVolume {
    /// Its class; empty if it has none.
    // upstream: staging/src/k8s.io/component-helpers/storage/volume/helpers.go GetPersistentVolumeClass
    pub fn class(&self) -> &str {
        let class = self.metadata.annotation(CLASS);
        class.unwrap_or(&self.spec.storage_class_name)
    }

    /// Whether its claimRef refers to a claim.
    // upstream: staging/src/k8s.io/component-helpers/storage/volume/pv_helpers.go IsVolumeBoundToClaim
    pub fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        let meta = &claim.metadata;
        let claim_ref = self.spec.claim_ref.as_ref();
        claim_ref.is_some_and(|claim_ref| claim_ref.refers_to(&meta.namespace, &meta.name, &meta.uid))
    }
}

// --- ClaimRef ---

impl ClaimRef {
    /// Whether it refers to the claim with this namespace, name and uid.
    pub fn refers_to(&self, namespace: &str, name: &str, uid: &str) -> bool {
        *self.name == *name && *self.namespace == *namespace && (self.uid.is_empty() || *self.uid == *uid)
    }
}
