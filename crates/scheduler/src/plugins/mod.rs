//! The rules by which nodes are found and compared, a file each.

mod fit;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_name;
mod node_ports;
mod node_unschedulable;
mod node_volume_limits;
mod normalize_score;
mod plugin_set;
mod scheduling_gates;
mod taint_toleration;
mod topology_spread;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

mod balanced_allocation;

pub use plugin_set::{Plugin, PluginSet};
pub(crate) use scheduling_gates::gated;
pub use volume_binding::PodVolumes;

pub(crate) mod framework;
