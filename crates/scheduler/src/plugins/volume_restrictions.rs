//! Some volumes can be used by one pod only, or on one node by one.

use super::{Plugin, framework::PreFilterResult};
use crate::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::ClusterEvent,
    interner::Text,
    number::count,
    object::{Pod, PodVolume},
    status::{Code, FilterResult, Rejection},
};

/// The claims of a pod that one pod alone may use, and how many of them are in use.
#[derive(Debug, Default)]
pub(super) struct ExclusiveVolumes {
    claims: Vec<Text>,
    taken: i64,
}

/// Finds the claims that one pod alone may use.
// upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go PreFilter, readWriteOncePodPVCsForPod
pub(super) fn pre_filter(
    pod: &Pod,
    cluster: &SchedulerCache,
) -> Result<(PreFilterResult, ExclusiveVolumes), Rejection> {
    let mut found = ExclusiveVolumes::default();
    for volume in &pod.spec.volumes {
        let PodVolume::PersistentVolumeClaim(name) = volume else {
            continue;
        };
        let Some(claim) = cluster.storage.claim(&pod.namespace, name) else {
            let reason = format!("persistentvolumeclaim \"{name}\" not found");
            return Err(Rejection::many(
                Code::UnschedulableAndUnresolvable,
                Some(Plugin::VolumeRestrictions),
                [reason.into()],
            ));
        };
        if claim.modes.iter().any(|mode| &**mode == "ReadWriteOncePod") && !found.claims.contains(name) {
            found.claims.push(name.clone());
        }
    }
    let in_use = |name: &&Text| cluster.claim_in_use(&(pod.namespace.clone(), (*name).clone()));
    found.taken = count(found.claims.iter().filter(in_use).count());
    let disks = pod
        .spec
        .volumes
        .iter()
        .any(|volume| matches!(volume, PodVolume::Disk { .. }));
    let early = if disks || found.taken > 0 {
        PreFilterResult::All
    } else {
        PreFilterResult::Skip
    };
    Ok((early, found))
}

impl ExclusiveVolumes {
    /// How many of the claims another pod uses.
    pub(super) fn used_by(&self, pod: &Pod) -> i64 {
        let used = |volume: &&PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if self.claims.contains(name));
        count(pod.spec.volumes.iter().filter(used).count())
    }
}

/// Whether no other pod is in the way; `delta` is the change by simulated adds and removes.
// upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go Filter, satisfyVolumeConflicts, satisfyReadWriteOncePod
pub(super) fn filter(pod: &Pod, exclusive: &ExclusiveVolumes, delta: i64, info: &NodeInfo) -> FilterResult {
    if conflicts(pod, info.pods.iter().map(|pod| &**pod)) {
        return Err(Rejection::unschedulable(
            Plugin::VolumeRestrictions,
            "node(s) had no available disk",
        ));
    }
    if exclusive.taken + delta > 0 {
        let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
        return Err(Rejection::unschedulable(Plugin::VolumeRestrictions, reason));
    }
    Ok(())
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

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go isSchedulableAfterAssignedPodDeleted, isSchedulableAfterPersistentVolumeClaimAdded
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
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
            let shares =
                |volume: &PodVolume| matches!(volume, PodVolume::PersistentVolumeClaim(name) if claims(name));
            deleted.namespace == pod.namespace
                && (conflicts(pod, std::iter::once(*deleted)) || deleted.spec.volumes.iter().any(shares))
        }
        _ => false,
    }
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
            let info = sample.cluster.info(sample.cluster.slot("n").unwrap());
            let result = filter(&pod, &ExclusiveVolumes::default(), 0, info);
            assert_eq!(result.is_ok(), fits, "{there} {asked}");
            assert_eq!(
                queueing_hint(&pod, &ClusterEvent::AssignedPodDelete(&there_pod)),
                !fits
            );
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
        let missing = pre_filter(&pod, &sample.cluster).unwrap_err();
        assert_eq!(missing.message(), "persistentvolumeclaim \"c\" not found");
        sample.cluster.storage.set_claim(claim);
        assert!(matches!(
            pre_filter(&pod, &sample.cluster).unwrap().0,
            PreFilterResult::Skip
        ));
        let other = sample.placed("other", "n", uses);
        let (_, exclusive) = pre_filter(&pod, &sample.cluster).unwrap();
        let info = sample.cluster.info(sample.cluster.slot("n").unwrap());
        let rejection = filter(&pod, &exclusive, 0, info).unwrap_err();
        assert_eq!(rejection.code, Code::Unschedulable);
        assert!(rejection.message().contains("ReadWriteOncePod"));
        assert!(
            filter(&pod, &exclusive, -exclusive.used_by(&other), info).is_ok(),
            "without the other it would do"
        );
    }
}
