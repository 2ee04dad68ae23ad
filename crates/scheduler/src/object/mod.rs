//! What the scheduler keeps of objects: only what it decides by, and what many have in common once.

mod affinity;
mod node;
mod pod;
mod requests;
mod resources;
mod scheduler_object;
mod spec;
mod storage;
mod workload;

pub use affinity::AffinityTerm;
pub use node::Node;
pub use pod::Pod;
pub use requests::Requests;
pub use resources::Resources;
#[cfg(test)]
pub(crate) use scheduler_object::read;
pub use scheduler_object::{SchedulerObject, StoredObject, keep};
pub use spec::{HostPort, PodVolume, Policy, Spec, TopologySpreadConstraint};
pub use storage::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, RawAttachment,
    RawCapacity, RawClass, RawCsiDriver, RawCsiNode, StorageClass, VolumeAttachment,
};
pub use workload::{Namespace, Owner, PodDisruptionBudget, ReplicaSet, Service};
