//! Plugin `VolumeZone`: a volume with zone labels is used on nodes of these zones only.

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::{PersistentVolume, Pod, PodVolume},
    status::{FilterResult, Rejection, RejectionCode},
};

const LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Labels that a node must have, each with the values that do.
pub(super) type ZoneRequirements = Vec<(&'static str, Vec<String>)>;

#[derive(Debug)]
pub(super) struct VolumeZone;

impl SchedulerPlugin for VolumeZone {
    type State = ZoneRequirements;

    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::PersistentVolumeClaim,
            ClusterEventKind::PersistentVolume,
            ClusterEventKind::StorageClass,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go isSchedulableAfterPersistentVolumeClaimChange, isSchedulableAfterPersistentVolumeChange
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(_) => true,
            ClusterEvent::NodeUpdate { old, new } => old.labels != new.labels,
            ClusterEvent::StorageClass { old: None, new } => new.waits == Some(true),
            ClusterEvent::PersistentVolumeClaim { new, .. } => {
                let uses = |volume: &PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if *name == new.name);
                new.namespace == pod.namespace && pod.spec.volumes.iter().any(uses)
            }
            ClusterEvent::PersistentVolume { old, new } => {
                old.is_none_or(|old| zones_of(old) != zones_of(new))
            }
            _ => false,
        }
    }

    /// Finds the zones of a pod's volumes.
    // upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go PreFilter, getPVbyPod
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        zones: &mut ZoneRequirements,
    ) -> Result<PreFilterResult, Rejection> {
        let CycleContext { pod, cluster } = *cycle;
        let never =
            |reason: String| Rejection::many(RejectionCode::UnschedulableAndUnresolvable, [reason.into()]);
        for volume in &pod.spec.volumes {
            let PodVolume::PersistentVolumeClaim(name) = volume else {
                continue;
            };
            if name.is_empty() {
                return Err(never("PersistentVolumeClaim had no name".into()));
            }
            let Some(claim) = cluster.storage.claim(&pod.namespace, name) else {
                return Err(never(format!("persistentvolumeclaim \"{name}\" not found")));
            };
            if claim.volume.is_empty() {
                let class = &claim.class;
                if class.is_empty() {
                    return Err(never(
                        "PersistentVolumeClaim had no pv name and storageClass name".into(),
                    ));
                }
                let Some(found) = cluster.storage.classes.get(class) else {
                    return Err(never(format!(
                        "storageclass.storage.k8s.io \"{class}\" not found"
                    )));
                };
                match found.waits {
                    None => {
                        return Err(never(format!(
                            "VolumeBindingMode not set for StorageClass \"{class}\""
                        )));
                    }
                    Some(true) => continue,
                    Some(false) => return Err(never("PersistentVolume had no name".into())),
                }
            }
            let Some(volume) = cluster.storage.volume(&claim.volume) else {
                return Err(never(format!("persistentvolume \"{}\" not found", claim.volume)));
            };
            zones.extend(zones_of(volume));
        }
        Ok(PreFilterResult::all_if(!zones.is_empty()))
    }

    /// Whether the node is in the zones. A node without any zone label passes.
    // upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go Filter
    fn filter(
        &self,
        _: &CycleContext<'_>,
        zones: &ZoneRequirements,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        let node = node.node;
        if LABELS.iter().all(|label| node.labels.get(label).is_none()) {
            return Ok(());
        }
        for (label, values) in zones {
            let value = node
                .labels
                .get(label)
                .or_else(|| node.labels.get(&label.replace("failure-domain.beta", "topology")));
            if value.is_none_or(|value| values.iter().all(|known| **known != **value)) {
                return Err(Rejection::unresolvable("node(s) had no available volume zone"));
            }
        }
        Ok(())
    }
}

// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go getPVTopologies
fn zones_of(volume: &PersistentVolume) -> ZoneRequirements {
    let zones = LABELS.iter().filter_map(|label| {
        let values = volume
            .labels
            .get(label)?
            .split("__")
            .map(|value| value.trim().to_owned());
        let values: Vec<_> = values.collect();
        // A zone without a name is a mistake; it binds nothing.
        values
            .iter()
            .all(|value| !value.is_empty())
            .then_some((*label, values))
    });
    zones.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        object::{PersistentVolume, PersistentVolumeClaim, read},
        test_cluster::TestCluster,
    };

    #[test]
    fn a_node_must_be_in_the_zone_of_the_volume() {
        let zone = "topology.kubernetes.io/zone";
        for (volume, node, fits) in [
            (json!({}), json!({zone: "a"}), true),
            (json!({zone: "a"}), json!({zone: "a"}), true),
            (json!({zone: "a"}), json!({zone: "b"}), false),
            (json!({zone: "a__b"}), json!({zone: "b"}), true),
            (json!({zone: "a"}), json!({}), true),
            (
                json!({zone: "a"}),
                json!({"topology.kubernetes.io/region": "r"}),
                false,
            ),
            (json!({LABELS[0]: "a"}), json!({zone: "a"}), true),
        ] {
            let mut sample = TestCluster::default();
            sample.node("n", |sample| sample["metadata"]["labels"] = node.clone());
            let raw = json!({"metadata": {"name": "v", "labels": volume}});
            sample
                .cluster
                .storage
                .set_volume(read::<PersistentVolume>(raw, &mut sample.interner));
            let raw = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": "v"}});
            sample
                .cluster
                .storage
                .set_claim(read::<PersistentVolumeClaim>(raw, &mut sample.interner));
            let pod = sample.pod("p", |pod| {
                pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "c"}}]);
            });
            let cycle = sample.cycle(&pod);
            let mut zones = ZoneRequirements::new();
            VolumeZone.pre_filter(&cycle, &mut zones).unwrap();
            let result = VolumeZone.filter(&cycle, &zones, &sample.candidate("n"));
            assert_eq!(result.is_ok(), fits, "{volume} {node}");
        }
    }
}
