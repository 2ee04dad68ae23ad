//! What is written on claims and volumes for others to see.

/// On a claim: it was bound once. If its volume is gone after that, the claim is lost.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On either: the controller has chosen the other. Without it, a user has.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the scheduler wants a volume that this node can use.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim: who is to make a volume for it.
pub(crate) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The same, for those who know the older name.
pub(crate) const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a volume: who has made it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a volume: a driver has taken it over.
pub(crate) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// Holds a volume until what is behind it is gone.
pub(crate) const DELETION_FINALIZER: &str = "kubernetes.io/pv-controller";
