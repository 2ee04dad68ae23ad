//! The plugins, one file or directory each, and the framework that runs them.

mod balanced_allocation;
mod default_preemption;
mod dyn_plugin;
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
mod registry;
mod scheduler_plugin;
mod scheduling_gates;
mod taint_toleration;
mod topology_spread;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

pub(crate) mod framework;

pub(crate) use plugin_set::{PluginId, PluginSet};
pub(crate) use registry::PluginFactory;
pub use scheduler_plugin::{
    Candidate, CandidateNode, CycleContext, ExtensionPoint, PostFilterContext, PostFilterResult,
    PreFilterResult, PreScoreResult, SchedulerPlugin,
};
pub use volume_binding::PodVolumes;

/// The plugins of this crate, in the order in which their filters run. A plugin is a file of this directory, and its line here.
// upstream: pkg/scheduler/framework/plugins/registry.go NewInTreeRegistry
pub(crate) fn new_in_tree_registry() -> Vec<PluginFactory> {
    vec![
        PluginFactory::new(|| scheduling_gates::SchedulingGates),
        PluginFactory::new(|| node_name::NodeName),
        PluginFactory::new(|| node_unschedulable::NodeUnschedulable),
        PluginFactory::new(|| taint_toleration::TaintToleration),
        PluginFactory::new(|| node_affinity::NodeAffinity),
        PluginFactory::new(|| node_ports::NodePorts),
        PluginFactory::new(|| fit::NodeResourcesFit),
        PluginFactory::new(|| volume_restrictions::VolumeRestrictions),
        PluginFactory::new(|| node_volume_limits::NodeVolumeLimits),
        PluginFactory::new(|| volume_binding::VolumeBinding),
        PluginFactory::new(|| volume_zone::VolumeZone),
        PluginFactory::new(topology_spread::PodTopologySpread::default),
        PluginFactory::new(inter_pod_affinity::InterPodAffinity::default),
        PluginFactory::new(|| default_preemption::DefaultPreemption),
        PluginFactory::new(|| balanced_allocation::NodeResourcesBalancedAllocation),
        PluginFactory::new(|| image_locality::ImageLocality),
    ]
}
