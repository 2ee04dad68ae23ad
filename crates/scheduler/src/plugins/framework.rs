//! Runs the plugins at the extension points `PreFilter`, `Filter`, `PreScore`, `Score` and `Reserve`.

use super::{
    Plugin, PluginSet, balanced_allocation, fit, image_locality::Images, inter_pod_affinity, node_affinity,
    node_name, node_ports, node_unschedulable, node_volume_limits, scheduling_gates, taint_toleration,
    topology_spread, volume_binding, volume_restrictions, volume_zone,
};
use crate::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::ClusterEvent,
    incremental::IncrementalCache,
    interner::Text,
    object::Pod,
    profile::Profile,
    status::{Code, FilterResult, Rejection},
};

/// Result of a plugin's `PreFilter`.
#[derive(Debug)]
pub(crate) enum PreFilterResult {
    /// The plugin's `Filter` is skipped.
    Skip,
    /// All nodes are filtered.
    All,
    /// Only these nodes are filtered.
    Only(Vec<Text>),
}

/// Plugin state that is kept between scheduling cycles.
#[derive(Debug, Default)]
pub(crate) struct PluginCaches {
    spread: IncrementalCache<topology_spread::SpreadCounts>,
    affinity: IncrementalCache<inter_pod_affinity::AffinityCounts>,
}

/// State of one scheduling cycle.
#[derive(Debug)]
pub(crate) struct CycleState<'c> {
    /// The pod.
    pub pod: &'c Pod,
    /// What is known.
    pub cluster: &'c SchedulerCache,
    filters: Vec<Plugin>,
    exclusive: volume_restrictions::ExclusiveVolumes,
    claims: volume_binding::PodVolumeClaims,
    zones: volume_zone::ZoneRequirements,
    spread: Option<topology_spread::FilterState>,
    affinity: Option<inter_pod_affinity::InterPodAffinityState>,
}

/// Incremental state for simulated adds and removes of pods on one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodDeltas {
    spread: Vec<i64>,
    affinity: Vec<inter_pod_affinity::TopologyDelta>,
    exclusive: i64,
}

/// The nodes that remain after `PreFilter`.
#[derive(Debug, Default)]
pub(crate) struct PreFilterNodes {
    /// Their names; all when there are none.
    pub names: Option<Vec<Text>>,
    /// Who chose.
    pub plugins: PluginSet,
}

impl<'c> CycleState<'c> {
    /// Runs `PreFilter` of all plugins.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreFilterPlugins
    pub(crate) fn begin(
        profile: &Profile,
        pod: &'c Pod,
        cluster: &'c SchedulerCache,
        sums: &mut PluginCaches,
    ) -> (Self, Result<PreFilterNodes, Rejection>) {
        let mut cycle = CycleState {
            pod,
            cluster,
            filters: Vec::new(),
            exclusive: volume_restrictions::ExclusiveVolumes::default(),
            claims: volume_binding::PodVolumeClaims::default(),
            zones: Vec::new(),
            spread: None,
            affinity: None,
        };
        let choice = cycle.look(profile, sums);
        (cycle, choice)
    }

    fn look(&mut self, profile: &Profile, sums: &mut PluginCaches) -> Result<PreFilterNodes, Rejection> {
        let mut choice = PreFilterNodes::default();
        for plugin in profile.plugins().iter() {
            let early = match plugin {
                Plugin::NodeName => self
                    .pod
                    .node
                    .clone()
                    .map_or(PreFilterResult::Skip, |name| PreFilterResult::Only(vec![name])),
                Plugin::NodeUnschedulable | Plugin::TaintToleration | Plugin::NodeResourcesFit => {
                    PreFilterResult::All
                }
                Plugin::NodeAffinity => node_affinity::pre_filter(self.pod)?,
                Plugin::NodePorts if !self.pod.spec.ports.is_empty() => PreFilterResult::All,
                Plugin::VolumeRestrictions if !self.pod.spec.volumes.is_empty() => {
                    let (early, exclusive) = volume_restrictions::pre_filter(self.pod, self.cluster)?;
                    self.exclusive = exclusive;
                    early
                }
                Plugin::NodeVolumeLimits => node_volume_limits::pre_filter(self.pod),
                Plugin::VolumeBinding if !self.pod.spec.volumes.is_empty() => {
                    let (early, claims) = volume_binding::pre_filter(self.pod, self.cluster)?;
                    self.claims = claims;
                    early
                }
                Plugin::VolumeZone if !self.pod.spec.volumes.is_empty() => {
                    let (early, zones) = volume_zone::pre_filter(self.pod, self.cluster)?;
                    self.zones = zones;
                    early
                }
                Plugin::PodTopologySpread => {
                    let (early, spread) =
                        topology_spread::pre_filter(self.pod, self.cluster, &mut sums.spread);
                    self.spread = spread;
                    early
                }
                Plugin::InterPodAffinity => {
                    self.affinity = inter_pod_affinity::look(self.pod, self.cluster, &mut sums.affinity);
                    inter_pod_affinity::pre_filter(self.pod, self.affinity.as_ref())
                }
                _ => PreFilterResult::Skip,
            };
            match early {
                PreFilterResult::Skip => continue,
                PreFilterResult::All => {}
                PreFilterResult::Only(names) => choice.narrow(plugin, names)?,
            }
            self.filters.push(plugin);
        }
        Ok(choice)
    }

    /// Runs the filters on a node, on top of simulated adds and removes.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunFilterPlugins
    pub(crate) fn filter(&self, slot: usize, info: &NodeInfo, deltas: &PodDeltas) -> FilterResult {
        let Some(node) = info.node.as_deref() else {
            return Err(Rejection::error(Plugin::NodeName, "node not found".into()));
        };
        for plugin in &self.filters {
            match plugin {
                Plugin::NodeName => node_name::filter(self.pod, info)?,
                Plugin::NodeUnschedulable => node_unschedulable::filter(self.pod, node)?,
                Plugin::TaintToleration => taint_toleration::filter(self.pod, node)?,
                Plugin::NodeAffinity => node_affinity::filter(self.pod, node)?,
                Plugin::NodePorts => node_ports::filter(self.pod, info)?,
                Plugin::NodeResourcesFit => fit::filter(self.pod, info, node)?,
                Plugin::VolumeRestrictions => {
                    volume_restrictions::filter(self.pod, &self.exclusive, deltas.exclusive, info)?;
                }
                Plugin::NodeVolumeLimits => node_volume_limits::filter(self.pod, self.cluster, info)?,
                Plugin::VolumeBinding => volume_binding::filter(&self.claims, &self.cluster.storage, node)?,
                Plugin::VolumeZone => volume_zone::filter(&self.zones, node)?,
                Plugin::PodTopologySpread => {
                    if let Some(spread) = &self.spread {
                        spread.filter(slot, &deltas.spread)?;
                    }
                }
                Plugin::InterPodAffinity => {
                    if let Some(affinity) = &self.affinity {
                        affinity.filter(self.pod, slot, node, &deltas.affinity)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records a simulated add (+1) or remove (-1) of another pod on a node.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunPreFilterExtensionAddPod, RunPreFilterExtensionRemovePod
    pub(crate) fn delta(&self, deltas: &mut PodDeltas, slot: usize, other: &Pod, by: i64) {
        if let Some(spread) = &self.spread {
            spread.delta(slot, self.pod, other, by, &mut deltas.spread);
        }
        if let Some(node) = self.cluster.node(slot).filter(|_| self.affinity.is_some()) {
            inter_pod_affinity::delta(node, self.pod, other, by, self.cluster, &mut deltas.affinity);
        }
        deltas.exclusive += by * self.exclusive.used_by(other);
    }

    /// Runs the score plugins; the weighted sum per node.
    // upstream: pkg/scheduler/framework/runtime/framework.go RunScorePlugins
    pub(crate) fn score(&self, profile: &Profile, nodes: &[usize], sums: &mut PluginCaches) -> Vec<i64> {
        let mut totals = vec![0; nodes.len()];
        for plugin in profile.plugins().iter() {
            let Some(scores) = self.score_by(plugin, nodes, sums) else {
                continue;
            };
            let weight = profile.weight(plugin);
            totals
                .iter_mut()
                .zip(scores)
                .for_each(|(total, score)| *total += weight * score);
        }
        totals
    }

    fn score_by(&self, plugin: Plugin, nodes: &[usize], sums: &mut PluginCaches) -> Option<Vec<i64>> {
        let pod = self.pod;
        let cluster = self.cluster;
        let infos = || nodes.iter().map(|slot| cluster.info(*slot));
        let each = || infos().filter_map(|info| Some((info, info.node.as_deref()?)));
        Some(match plugin {
            Plugin::TaintToleration => {
                let soft = taint_toleration::soft(pod);
                let mut scores: Vec<_> = each()
                    .map(|(_, node)| taint_toleration::score(&soft, node))
                    .collect();
                taint_toleration::normalize(&mut scores);
                scores
            }
            Plugin::NodeAffinity if !pod.spec.preferred_nodes.is_empty() => {
                let mut scores: Vec<_> = each().map(|(_, node)| node_affinity::score(pod, node)).collect();
                node_affinity::normalize(&mut scores);
                scores
            }
            Plugin::NodeResourcesFit => each().map(|(info, node)| fit::score(pod, info, node)).collect(),
            Plugin::VolumeBinding if self.claims.any_waiting() => each()
                .map(|(_, node)| volume_binding::score(&self.claims, &cluster.storage, node))
                .collect(),
            Plugin::PodTopologySpread => {
                let soft = topology_spread::pre_score(pod, cluster, nodes, &mut sums.spread)?;
                let mut scores: Vec<_> = nodes.iter().map(|slot| soft.score(*slot)).collect();
                soft.normalize(nodes, &mut scores);
                sums.spread.put(soft.borrowed);
                scores
            }
            Plugin::InterPodAffinity => {
                let affinity = self
                    .affinity
                    .as_ref()
                    .filter(|affinity| affinity.borrowed.state.is_scored())?;
                let mut scores: Vec<_> = nodes.iter().map(|slot| affinity.score(*slot)).collect();
                inter_pod_affinity::normalize(&mut scores);
                scores
            }
            Plugin::NodeResourcesBalancedAllocation if balanced_allocation::applies(pod) => each()
                .map(|(info, node)| balanced_allocation::score(pod, info, node))
                .collect(),
            Plugin::ImageLocality => {
                let images = Images::of(pod, cluster)?;
                each().map(|(_, node)| images.score(node)).collect()
            }
            _ => return None,
        })
    }

    /// The volumes to bind or provision for the pod on a node.
    pub(crate) fn volumes(&self, slot: usize) -> Result<volume_binding::PodVolumes, Rejection> {
        let node = self.cluster.node(slot).filter(|_| self.claims.any_waiting());
        node.map_or(Ok(volume_binding::PodVolumes::default()), |node| {
            volume_binding::find_pod_volumes(&self.claims, &self.cluster.storage, node)
        })
    }

    /// Ends the cycle: puts plugin state back into the caches.
    pub(crate) fn end(self, sums: &mut PluginCaches) {
        if let Some(spread) = self.spread {
            sums.spread.put(spread.borrowed);
        }
        if let Some(affinity) = self.affinity {
            sums.affinity.put(affinity.borrowed);
        }
    }
}

impl PodDeltas {
    /// No simulated change.
    pub(crate) const fn none() -> Self {
        PodDeltas {
            spread: Vec::new(),
            affinity: Vec::new(),
            exclusive: 0,
        }
    }
}

impl PreFilterNodes {
    fn narrow(&mut self, plugin: Plugin, names: Vec<Text>) -> Result<(), Rejection> {
        self.plugins.insert(plugin);
        let left: Vec<_> = match self.names.take() {
            None => names,
            Some(known) => known.into_iter().filter(|name| names.contains(name)).collect(),
        };
        if left.is_empty() {
            let reason = if self.plugins == PluginSet::from_iter([plugin]) {
                format!("node(s) didn't satisfy plugin {}", plugin.name())
            } else {
                format!(
                    "node(s) didn't satisfy plugin(s) {} simultaneously",
                    self.plugins.names()
                )
            };
            return Err(Rejection::many(
                Code::UnschedulableAndUnresolvable,
                None,
                [reason.into()],
            ));
        }
        self.names = Some(left);
        Ok(())
    }
}

/// The plugin's queueing hint: whether an event may make a pod schedulable that the plugin rejected.
pub(crate) fn queueing_hint(
    plugin: Plugin,
    pod: &Pod,
    event: &ClusterEvent<'_>,
    cluster: &SchedulerCache,
) -> bool {
    match plugin {
        Plugin::SchedulingGates => scheduling_gates::queueing_hint(event),
        Plugin::NodeName => node_name::queueing_hint(event),
        Plugin::NodeUnschedulable => node_unschedulable::queueing_hint(event),
        Plugin::TaintToleration => taint_toleration::queueing_hint(pod, event),
        Plugin::NodeAffinity => node_affinity::queueing_hint(pod, event),
        Plugin::NodePorts => node_ports::queueing_hint(pod, event),
        Plugin::NodeResourcesFit => fit::queueing_hint(pod, event),
        Plugin::VolumeRestrictions => volume_restrictions::queueing_hint(pod, event),
        Plugin::NodeVolumeLimits => node_volume_limits::queueing_hint(pod, event),
        Plugin::VolumeBinding => volume_binding::queueing_hint(pod, event),
        Plugin::VolumeZone => volume_zone::queueing_hint(pod, event),
        Plugin::PodTopologySpread => topology_spread::queueing_hint(pod, event, cluster),
        Plugin::InterPodAffinity => inter_pod_affinity::queueing_hint(pod, event, cluster),
        _ => false,
    }
}

/// The plugins that register for an event: pods rejected only by other plugins are not checked.
// upstream: pkg/scheduler/scheduler.go buildQueueingHintMap
pub(crate) fn events_to_register(event: &ClusterEvent<'_>) -> PluginSet {
    use Plugin as P;
    let plugins: &[Plugin] = match event {
        ClusterEvent::NodeAdd(_) | ClusterEvent::NodeUpdate { .. } => &[
            P::NodeName,
            P::NodeUnschedulable,
            P::TaintToleration,
            P::NodeAffinity,
            P::NodePorts,
            P::NodeResourcesFit,
            P::VolumeRestrictions,
            P::VolumeBinding,
            P::VolumeZone,
            P::PodTopologySpread,
            P::InterPodAffinity,
        ],
        ClusterEvent::NodeDelete(_) => &[P::PodTopologySpread],
        ClusterEvent::AssignedPodAdd(_) => &[P::PodTopologySpread, P::InterPodAffinity],
        ClusterEvent::AssignedPodUpdate { .. } => {
            &[P::NodeResourcesFit, P::PodTopologySpread, P::InterPodAffinity]
        }
        ClusterEvent::AssignedPodDelete(_) => &[
            P::NodePorts,
            P::NodeResourcesFit,
            P::VolumeRestrictions,
            P::NodeVolumeLimits,
            P::PodTopologySpread,
            P::InterPodAffinity,
        ],
        ClusterEvent::UnscheduledPodUpdate { .. } => return PluginSet::all(),
        ClusterEvent::PersistentVolumeClaim { .. } => &[
            P::VolumeRestrictions,
            P::NodeVolumeLimits,
            P::VolumeBinding,
            P::VolumeZone,
        ],
        ClusterEvent::PersistentVolume { .. } | ClusterEvent::StorageClass { .. } => {
            &[P::VolumeBinding, P::VolumeZone]
        }
        ClusterEvent::CsiNode { .. } => &[P::NodeVolumeLimits, P::VolumeBinding],
        ClusterEvent::CsiDriver { .. } | ClusterEvent::CsiStorageCapacity { .. } => &[P::VolumeBinding],
        ClusterEvent::VolumeAttachmentDelete(_) => &[P::NodeVolumeLimits],
    };
    plugins.iter().copied().collect()
}
