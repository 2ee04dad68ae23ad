//! Plugin `NodeVolumeLimits`: a CSI driver attaches a limited number of volumes to a node.

use hashbrown::HashMap;

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    interner::Text,
    number::count,
    object::{PersistentVolumeClaim, Pod, PodVolume},
    status::{FilterResult, Rejection, RejectionCode},
};

#[derive(Debug)]
pub(super) struct NodeVolumeLimits;

/// Drivers by the volumes they attach; a volume is identified by its driver and its handle.
type AttachedVolumes = HashMap<(Text, Text), Text>;

impl SchedulerPlugin for NodeVolumeLimits {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::AssignedPodDelete,
            ClusterEventKind::PersistentVolumeClaim,
            ClusterEventKind::CsiNode,
            ClusterEventKind::VolumeAttachmentDelete,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go isSchedulableAfterAssignedPodDeleted, isSchedulableAfterPVCAdded, isSchedulableAfterCSINodeUpdated
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::CsiNode { old: None, .. } => true,
            ClusterEvent::CsiNode { old: Some(old), new } => new.drivers.iter().any(|(name, limit)| {
                let before = old
                    .drivers
                    .iter()
                    .find(|(known, _)| known == name)
                    .and_then(|(_, limit)| *limit);
                limit.unwrap_or(0) > before.unwrap_or(0)
            }),
            ClusterEvent::AssignedPodDelete(deleted) => deleted.claims().next().is_some(),
            ClusterEvent::PersistentVolumeClaim { old: None, new } => {
                new.namespace == pod.namespace && pod.claims().any(|name| name == new.name)
            }
            ClusterEvent::VolumeAttachmentDelete(_) => pod.claims().next().is_some(),
            _ => false,
        }
    }

    // upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go PreFilter
    fn pre_filter(&self, cycle: &CycleContext<'_>, (): &mut ()) -> Result<PreFilterResult, Rejection> {
        let attachable = |volume: &PodVolume| {
            matches!(
                volume,
                PodVolume::PersistentVolumeClaim(_) | PodVolume::Ephemeral(_)
            )
        };
        let applies = cycle.pod.spec.volumes.iter().any(attachable);
        Ok(PreFilterResult::all_if(applies))
    }

    // upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go Filter
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        let CycleContext { pod, cluster } = *cycle;
        let info = node.info;
        let mut new = volumes_to_attach(pod, cluster)?;
        if new.is_empty() {
            return Ok(());
        }
        let node = cluster.storage.csi_nodes.get(&info.name);
        for driver in new.values() {
            let needed = cluster
                .storage
                .drivers
                .get(driver)
                .is_some_and(|driver| driver.needed);
            let there = node.is_some_and(|node| node.drivers.iter().any(|(name, _)| name == driver));
            if needed && !there {
                let reason = format!("{driver} CSI driver is not installed on the node");
                let reasons = [reason.into()];
                return Err(Rejection::many(RejectionCode::Unschedulable, reasons));
            }
        }
        let limits = node.iter().flat_map(|node| &node.drivers);
        let limits: HashMap<_, _> = limits
            .filter_map(|(name, limit)| Some((name, (*limit)?)))
            .collect();
        if limits.is_empty() {
            return Ok(());
        }
        let mut attached = AttachedVolumes::new();
        for pod in &info.pods {
            // A claim that was deleted has no volume to detach.
            let claims = pod
                .claims()
                .filter_map(|name| cluster.storage.claim(&pod.namespace, &name));
            for claim in claims {
                attached.extend(attached_volume(claim, cluster));
            }
        }
        for attachment in cluster
            .storage
            .attachments
            .values()
            .filter(|attachment| attachment.node == info.name)
        {
            let volume = attachment
                .volume
                .as_ref()
                .and_then(|name| cluster.storage.volume(name));
            if let Some((driver, handle)) = volume.and_then(|volume| volume.driver.clone()) {
                attached.insert((driver.clone(), handle), driver);
            }
        }
        new.retain(|volume, _| !attached.contains_key(volume));
        for driver in new.values() {
            let of =
                |volumes: &AttachedVolumes| count(volumes.values().filter(|other| *other == driver).count());
            if limits
                .get(driver)
                .is_some_and(|limit| of(&attached) + of(&new) > *limit)
            {
                return Err(Rejection::unschedulable("node(s) exceed max volume count"));
            }
        }
        Ok(())
    }
}

// upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go filterAttachableVolumes
fn volumes_to_attach(pod: &Pod, cluster: &SchedulerCache) -> Result<AttachedVolumes, Rejection> {
    let mut volumes = AttachedVolumes::new();
    for name in pod.claims() {
        let Some(claim) = cluster.storage.claim(&pod.namespace, &name) else {
            let key = format!("{}/{name}", pod.namespace);
            let reason = format!("looking up PVC {key}: persistentvolumeclaim \"{name}\" not found");
            let reasons = [reason.into()];
            return Err(Rejection::many(
                RejectionCode::UnschedulableAndUnresolvable,
                reasons,
            ));
        };
        volumes.extend(attached_volume(claim, cluster));
    }
    Ok(volumes)
}

fn attached_volume(claim: &PersistentVolumeClaim, cluster: &SchedulerCache) -> Option<((Text, Text), Text)> {
    let (driver, handle) = driver_of(claim, cluster)?;
    Some(((driver.clone(), handle), driver))
}

/// The driver of a claim and the name of its volume there. A volume that is still to be made has a name of its own.
// upstream: pkg/scheduler/framework/plugins/nodevolumelimits/csi.go getCSIDriverInfo
fn driver_of(claim: &PersistentVolumeClaim, cluster: &SchedulerCache) -> Option<(Text, Text)> {
    if let Some(volume) = cluster.storage.volume(&claim.volume) {
        return volume.driver.clone();
    }
    let class = cluster.storage.classes.get(&claim.class)?;
    let handle = format!("\0{}/{}", claim.namespace, claim.name);
    Some((class.provisioner.clone(), handle.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        object::{CsiDriver, CsiNode, PersistentVolume, read},
        test_cluster::TestCluster,
    };

    fn sample(limit: i64) -> TestCluster {
        let mut sample = TestCluster::default();
        sample.node("n", |_| {});
        let raw = json!({"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": limit}}]}});
        let node = read::<CsiNode>(raw, &mut sample.interner);
        sample.cluster.storage.csi_nodes.insert("n".into(), node.into());
        for name in ["a", "b", "c"] {
            let raw =
                json!({"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}});
            sample
                .cluster
                .storage
                .set_volume(read::<PersistentVolume>(raw, &mut sample.interner));
            let raw =
                json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": name}});
            sample
                .cluster
                .storage
                .set_claim(read::<PersistentVolumeClaim>(raw, &mut sample.interner));
        }
        sample
    }

    fn uses(names: &[&str]) -> impl FnOnce(&mut Value) {
        let volumes: Vec<_> = names
            .iter()
            .map(|name| json!({"persistentVolumeClaim": {"claimName": name}}))
            .collect();
        move |pod| pod["spec"]["volumes"] = json!(volumes)
    }

    #[test]
    fn a_driver_attaches_no_more_than_it_can() {
        for (limit, there, asked, fits) in [
            (2, vec!["a"], vec!["b"], true),
            (1, vec!["a"], vec!["b"], false),
            (1, vec!["a"], vec!["a"], true),
            (2, vec!["a"], vec!["b", "c"], false),
        ] {
            let mut sample = sample(limit);
            sample.placed("there", "n", uses(&there));
            let pod = sample.pod("p", uses(&asked));
            let result = NodeVolumeLimits.filter(&sample.cycle(&pod), &(), &sample.candidate("n"));
            assert_eq!(result.is_ok(), fits, "{limit} {there:?} {asked:?}");
            if let Err(rejection) = result {
                assert_eq!(rejection.message(), "node(s) exceed max volume count");
            }
        }
    }

    #[test]
    fn a_driver_may_be_needed_on_the_node() {
        let mut sample = sample(5);
        let driver = json!({"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": true}});
        let driver = read::<CsiDriver>(driver, &mut sample.interner);
        sample.cluster.storage.drivers.insert("d".into(), driver.into());
        let pod = sample.pod("p", uses(&["a"]));
        let filter =
            |sample: &TestCluster| NodeVolumeLimits.filter(&sample.cycle(&pod), &(), &sample.candidate("n"));
        assert!(filter(&sample).is_ok());
        sample.cluster.storage.csi_nodes.clear();
        let rejection = filter(&sample).unwrap_err();
        assert_eq!(rejection.message(), "d CSI driver is not installed on the node");
    }
}
