//! What the scheduler keeps of objects: only what it decides by, and what many have in common once.

mod affinity;
mod quantity;
mod scheduler_object;
mod node;
mod pod;
mod requests;
mod resources;
mod spec;
mod storage;
mod workload;

pub use affinity::{NodeSelectorTerm, NodeSelector, RawAffinity, RawNodeSelector, AffinityTerm};
pub use quantity::{ResourceQuantity, ResourceList};
#[cfg(test)]
pub(crate) use scheduler_object::read;
pub use scheduler_object::{SchedulerObject, Stored, keep};
pub use node::{Effect, Node, NodeFields, RawTaint, Taint, Toleration};
pub use pod::{Condition, Pod, PodFields};
pub use requests::Requests;
pub use resources::Resources;
pub use spec::{HostPort, Policy, RawContainer, RawSpec, Spec, TopologySpreadConstraint, PodVolume};
pub use storage::{
    VolumeAttachment, CsiStorageCapacity, PersistentVolumeClaim, ClaimRef, CsiDriver, CsiNode, RawAttachment, RawCapacity, RawClaim,
    RawClass, RawCsiDriver, RawCsiNode, RawVolume, StorageClass, PersistentVolume,
};
pub use workload::{PodDisruptionBudget, Namespace, Owner, ReplicaSet, Service};
