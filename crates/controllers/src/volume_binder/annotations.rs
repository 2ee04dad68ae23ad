//! Annotations and finalizers of claims and volumes.

use k3_workloads::PersistentVolumeClaim;

/// On a claim: it was bound. If its volume is deleted after that, the claim is Lost.
// upstream: pkg/controller/volume/persistentvolume/pv_controller.go syncClaim; the annotations are defined in component-helpers/storage/volume
pub(crate) const BIND_COMPLETED: &str = PersistentVolumeClaim::BIND_COMPLETED;
/// On a claim or volume: the controller chose the other one. Without it, a user did.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node chosen by the scheduler.
pub(crate) const SELECTED_NODE: &str = PersistentVolumeClaim::SELECTED_NODE;
/// On a claim: the provisioner.
pub(crate) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The beta name of the same.
pub(crate) const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a volume: its provisioner.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a volume: the CSI driver it was migrated to.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a volume: kept until its storage is deleted.
pub(crate) const DELETION_FINALIZER: &str = "kubernetes.io/pv-controller";
