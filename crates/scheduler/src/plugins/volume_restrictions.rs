//! Plugin `VolumeRestrictions`: some volumes are used by one pod only, or on one node by one pod.

use super::{CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, SchedulerPlugin};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    interner::Text,
    number::count,
    object::{Pod, PodVolume},
    status::{FilterResult, Rejection, RejectionCode},
};

#[derive(Debug)]
pub(super) struct VolumeRestrictions;

/// The claims of a pod that one pod alone may use, and how many of them are in use.
#[derive(Clone, Debug, Default)]
pub(super) struct ExclusiveVolumes {
    claims: Vec<Text>,
    taken: i64,
}

impl SchedulerPlugin for VolumeRestrictions {
    type State = ExclusiveVolumes;

    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::AssignedPodDelete,
            ClusterEventKind::PersistentVolumeClaim,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go isSchedulableAfterAssignedPodDeleted, isSchedulableAfterPersistentVolumeClaimAdded
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        let claims = |name: &Text| {
            pod.spec
                .volumes
                .iter()
                .any(|volume| matches!(volume, PodVolume::PersistentVolumeClaim(own) if own == name))
        };
        match event {
            ClusterEvent::NodeAdd(_) => true,
            ClusterEvent::PersistentVolumeClaim { old: None, new } => {
                new.namespace == pod.namespace && claims(&new.name)
            }
            ClusterEvent::AssignedPodDelete(deleted) => {
                let shares = |volume: &PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if claims(name));
                deleted.namespace == pod.namespace
                    && (conflicts(pod, std::iter::once(*deleted)) || deleted.spec.volumes.iter().any(shares))
            }
            _ => false,
        }
    }

    /// Finds the claims that one pod alone may use.
    // upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go PreFilter, readWriteOncePodPVCsForPod
    fn pre_filter(
        &self,
        cycle: &CycleContext<'_>,
        exclusive: &mut ExclusiveVolumes,
    ) -> Result<PreFilterResult, Rejection> {
        let CycleContext { pod, cluster } = *cycle;
        if pod.spec.volumes.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        for volume in &pod.spec.volumes {
            let PodVolume::PersistentVolumeClaim(name) = volume else {
                continue;
            };
            let Some(claim) = cluster.storage.claim(&pod.namespace, name) else {
                let reason = format!("persistentvolumeclaim \"{name}\" not found");
                return Err(Rejection::many(
                    RejectionCode::UnschedulableAndUnresolvable,
                    [reason.into()],
                ));
            };
            if claim.modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
                && !exclusive.claims.contains(name)
            {
                exclusive.claims.push(name.clone());
            }
        }
        let in_use = |name: &&Text| cluster.claim_in_use(&(pod.namespace.clone(), (*name).clone()));
        exclusive.taken = count(exclusive.claims.iter().filter(in_use).count());
        let disks = pod
            .spec
            .volumes
            .iter()
            .any(|volume| matches!(volume, PodVolume::Disk { .. }));
        Ok(PreFilterResult::all_if(disks || exclusive.taken > 0))
    }

    // upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go Filter, satisfyVolumeConflicts, satisfyReadWriteOncePod
    fn filter(
        &self,
        cycle: &CycleContext<'_>,
        exclusive: &ExclusiveVolumes,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        if conflicts(cycle.pod, node.info.pods.iter().map(|pod| &**pod)) {
            return Err(Rejection::unschedulable("node(s) had no available disk"));
        }
        if exclusive.taken > 0 {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
            return Err(Rejection::unschedulable(reason));
        }
        Ok(())
    }

    // upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go AddPod
    fn add_pod(
        &self,
        _: &CycleContext<'_>,
        exclusive: &mut ExclusiveVolumes,
        added: &Pod,
        _: &CandidateNode<'_>,
    ) {
        exclusive.taken += exclusive.used_by(added);
    }

    // upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go RemovePod
    fn remove_pod(
        &self,
        _: &CycleContext<'_>,
        exclusive: &mut ExclusiveVolumes,
        removed: &Pod,
        _: &CandidateNode<'_>,
    ) {
        exclusive.taken -= exclusive.used_by(removed);
    }
}

impl ExclusiveVolumes {
    /// The number of the claims that another pod uses.
    fn used_by(&self, pod: &Pod) -> i64 {
        let used = |volume: &&PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if self.claims.contains(name));
        count(pod.spec.volumes.iter().filter(used).count())
    }
}

fn conflicts<'p>(pod: &Pod, mut others: impl Iterator<Item = &'p Pod>) -> bool {
    let disks = || {
        pod.spec
            .volumes
            .iter()
            .filter(|volume| matches!(volume, PodVolume::Disk { .. }))
    };
    if disks().next().is_none() {
        return false;
    }
    others.any(|other| disks().any(|disk| other.spec.volumes.iter().any(|volume| disk.conflicts(volume))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        object::{PersistentVolumeClaim, read},
        test_cluster::TestCluster,
    };

    #[test]
    fn a_disk_is_shared_by_readers_only() {
        let disk = |read_only: bool| json!([{"gcePersistentDisk": {"pdName": "d", "readOnly": read_only}}]);
        let block = |id: &str| json!([{"awsElasticBlockStore": {"volumeID": id, "readOnly": true}}]);
        let rbd = |monitor: &str| json!([{"rbd": {"monitors": [monitor], "image": "i"}}]);
        let pool = |pool: &str| json!([{"rbd": {"monitors": ["a"], "pool": pool, "image": "i"}}]);
        for (there, asked, fits) in [
            (disk(true), disk(true), true),
            (disk(true), disk(false), false),
            (block("a"), block("b"), true),
            (block("a"), block("a"), false),
            (rbd("a"), rbd("a"), false),
            (rbd("a"), rbd("b"), true),
            (rbd("a"), pool("rbd"), false),
            (pool("p"), pool("q"), true),
            (disk(false), block("d"), true),
        ] {
            let mut sample = TestCluster::default();
            sample.node("n", |_| {});
            let volumes = |volumes: &Value| {
                let volumes = volumes.clone();
                move |pod: &mut Value| pod["spec"]["volumes"] = volumes
            };
            let there_pod = sample.placed("there", "n", volumes(&there));
            let pod = sample.pod("p", volumes(&asked));
            let result = VolumeRestrictions.filter(
                &sample.cycle(&pod),
                &ExclusiveVolumes::default(),
                &sample.candidate("n"),
            );
            assert_eq!(result.is_ok(), fits, "{there} {asked}");
            let event = ClusterEvent::AssignedPodDelete(&there_pod);
            let hint = VolumeRestrictions.queueing_hint(&pod, &event, &sample.cluster);
            assert_eq!(hint, !fits);
        }
    }

    #[test]
    fn an_exclusive_claim_is_used_once() {
        let mut sample = TestCluster::default();
        sample.node("n", |_| {});
        let claim = json!({
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOncePod"]},
        });
        let claim = read::<PersistentVolumeClaim>(claim, &mut sample.interner);
        let uses = |pod: &mut Value| {
            pod["spec"]["volumes"] = json!([{"persistentVolumeClaim": {"claimName": "c"}}]);
        };
        let pod = sample.pod("p", uses);
        let pre_filter = |sample: &TestCluster| {
            let mut exclusive = ExclusiveVolumes::default();
            let result = VolumeRestrictions.pre_filter(&sample.cycle(&pod), &mut exclusive);
            result.map(|result| (result, exclusive))
        };
        let missing = pre_filter(&sample).unwrap_err();
        assert_eq!(missing.message(), "persistentvolumeclaim \"c\" not found");
        sample.cluster.storage.set_claim(claim);
        assert!(matches!(pre_filter(&sample).unwrap().0, PreFilterResult::Skip));
        let other = sample.placed("other", "n", uses);
        let (_, mut exclusive) = pre_filter(&sample).unwrap();
        let cycle = sample.cycle(&pod);
        let node = sample.candidate("n");
        let rejection = VolumeRestrictions.filter(&cycle, &exclusive, &node).unwrap_err();
        assert_eq!(rejection.code, RejectionCode::Unschedulable);
        assert!(rejection.message().contains("ReadWriteOncePod"));
        VolumeRestrictions.remove_pod(&cycle, &mut exclusive, &other, &node);
        assert!(
            VolumeRestrictions.filter(&cycle, &exclusive, &node).is_ok(),
            "without the other it would do"
        );
    }
}
