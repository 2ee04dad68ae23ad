//! Plugin `VolumeZone`: a volume with zone labels is used on nodes of these zones only.

use super::{Plugin, framework::PreFilterResult};
use crate::{
    cache::SchedulerCache,
    cluster_event::ClusterEvent,
    object::{Node, PersistentVolume, Pod, PodVolume},
    status::{Code, FilterResult, Rejection},
};

const LABELS: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];

/// Labels that a node must have, each with the values that do.
pub(super) type ZoneRequirements = Vec<(&'static str, Vec<String>)>;

/// Finds the zones of a pod's volumes.
// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go PreFilter, getPVbyPod
pub(super) fn pre_filter(
    pod: &Pod,
    cluster: &SchedulerCache,
) -> Result<(PreFilterResult, ZoneRequirements), Rejection> {
    let mut zones = ZoneRequirements::new();
    let never = |reason: String| {
        Rejection::many(
            Code::UnschedulableAndUnresolvable,
            Some(Plugin::VolumeZone),
            [reason.into()],
        )
    };
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
    Ok((
        if zones.is_empty() {
            PreFilterResult::Skip
        } else {
            PreFilterResult::All
        },
        zones,
    ))
}

/// Whether a node is in the zones. A node without any zone label passes.
// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go Filter
pub(super) fn filter(zones: &ZoneRequirements, node: &Node) -> FilterResult {
    if LABELS.iter().all(|label| node.labels.get(label).is_none()) {
        return Ok(());
    }
    for (label, values) in zones {
        let value = node
            .labels
            .get(label)
            .or_else(|| node.labels.get(&label.replace("failure-domain.beta", "topology")));
        if value.is_none_or(|value| values.iter().all(|known| **known != **value)) {
            return Err(Rejection::unresolvable(
                Plugin::VolumeZone,
                "node(s) had no available volume zone",
            ));
        }
    }
    Ok(())
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

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/volumezone/volume_zone.go isSchedulableAfterPersistentVolumeClaimChange, isSchedulableAfterPersistentVolumeChange
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdd(_) => true,
        ClusterEvent::NodeUpdate { old, new } => old.labels != new.labels,
        ClusterEvent::StorageClass { old: None, new } => new.waits == Some(true),
        ClusterEvent::PersistentVolumeClaim { new, .. } => {
            let uses = |volume: &PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if *name == new.name);
            new.namespace == pod.namespace && pod.spec.volumes.iter().any(uses)
        }
        ClusterEvent::PersistentVolume { old, new } => old.is_none_or(|old| zones_of(old) != zones_of(new)),
        _ => false,
    }
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
            let found = sample.node("n", |sample| sample["metadata"]["labels"] = node.clone());
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
            let (_, zones) = pre_filter(&pod, &sample.cluster).unwrap();
            assert_eq!(filter(&zones, &found).is_ok(), fits, "{volume} {node}");
        }
    }
}
