//! What the scheduler keeps of objects: only what it decides by, and what many have in common once.

mod affinity;
mod amount;
mod kept;
mod node;
mod pod;
mod requests;
mod resources;
mod spec;
mod storage;
mod workload;

pub use affinity::{NodeRule, NodeRules, RawAffinity, RawNodeSelector, Term};
pub use amount::{Amount, Amounts};
#[cfg(test)]
pub(crate) use kept::read;
pub use kept::{Kept, Stored, keep};
pub use node::{Effect, Node, NodeFields, RawTaint, Taint, Toleration};
pub use pod::{Condition, Pod, PodFields};
pub use requests::Requests;
pub use resources::Resources;
pub use spec::{HostPort, Policy, RawContainer, RawSpec, Spec, Spread, VolumeUse};
pub use storage::{
    Attachment, Capacity, Claim, ClaimRef, CsiDriver, CsiNode, RawAttachment, RawCapacity, RawClaim,
    RawClass, RawCsiDriver, RawCsiNode, RawVolume, StorageClass, Volume,
};
pub use workload::{Budget, Namespace, Owner, ReplicaSet, Service};
