//! Claims and volumes against an API in memory.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES},
    testing::{Scenario, TestCluster},
};

fn volume(cluster: &TestCluster, name: &str, size: &str, more: Value) {
    let whole = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "hostPath": {"path": "/tmp/x"},
        "persistentVolumeReclaimPolicy": "Retain"}});
    cluster.put(
        &PERSISTENT_VOLUMES,
        k3_api::patch::merge::apply(whole, more).unwrap(),
    );
}

fn claim(cluster: &TestCluster, name: &str, size: &str, spec: Value) {
    let whole = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
        "resources": {"requests": {"storage": size}}});
    let spec = k3_api::patch::merge::apply(whole, spec).unwrap();
    cluster.put(
        &PERSISTENT_VOLUME_CLAIMS,
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": {"phase": "Pending"}}),
    );
}

fn class(cluster: &TestCluster, name: &str, mode: &str, annotations: &Value) {
    cluster.put(
        &STORAGE_CLASSES,
        json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/disks",
            "volumeBindingMode": mode}),
    );
}

/// The phase of each volume and claim, and what it has.
fn phases(cluster: &TestCluster) -> Value {
    let mut all = serde_json::Map::new();
    for volume in cluster.api.list::<PersistentVolume>() {
        let spec = volume.spec.unwrap_or_default();
        let owner = spec.claim_ref.and_then(|owner| owner.name);
        let phase = volume.status.and_then(|status| status.phase);
        all.insert(volume.metadata.name.unwrap(), json!([phase, owner]));
    }
    for claim in cluster.api.list::<PersistentVolumeClaim>() {
        let has = claim.spec.and_then(|spec| spec.volume_name);
        let phase = claim.status.and_then(|status| status.phase);
        all.insert(claim.metadata.name.unwrap(), json!([phase, has]));
    }
    all.into()
}

fn events(cluster: &TestCluster) -> Vec<String> {
    let events = cluster.api.list::<Event>().into_iter();
    let mut reasons: Vec<_> = events.filter_map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

/// A claim gets the smaller of two volumes, one waits in vain, one has the volume it asked for, a volume is meant for a claim;
/// later one claim and one volume are deleted.
const BINDING: Scenario = Scenario {
    make,
    setup: |cluster| {
        let free = json!({"status": {"phase": "Available"}});
        volume(cluster, "v-small", "1Gi", free.clone());
        volume(cluster, "v-big", "9Gi", free);
        volume(
            cluster,
            "v-named",
            "9Gi",
            json!({"spec": {"storageClassName": "other"}}),
        );
        let owner = json!({"namespace": "shop", "name": "meant"});
        volume(cluster, "v-meant", "9Gi", json!({"spec": {"claimRef": owner}}));
        volume(
            cluster,
            "v-doomed",
            "1Gi",
            json!({"spec": {"storageClassName": "doomed"}}),
        );
        claim(cluster, "small", "1Gi", json!({}));
        claim(cluster, "huge", "99Gi", json!({}));
        claim(cluster, "meant", "1Gi", json!({}));
        claim(cluster, "doomed", "1Gi", json!({"storageClassName": "doomed"}));
        claim(
            cluster,
            "named",
            "1Gi",
            json!({"storageClassName": "other", "volumeName": "v-named"}),
        );
    },
    play: |cluster| {
        let seconds = cluster.now().as_second() - 1_767_225_630;
        if seconds >= 20
            && cluster
                .api
                .get::<PersistentVolumeClaim>("shop", "small")
                .is_some()
        {
            cluster.api.remove::<PersistentVolumeClaim>("shop", "small");
            cluster.api.remove::<PersistentVolume>("", "v-doomed");
        }
    },
    end: |cluster| {
        let is_late = cluster.now().as_second() > 1_767_225_630 + 40;
        is_late.then(|| phases(cluster))
    },
};

#[tokio::test(start_paused = true)]
async fn binds_claims_to_matching_volumes() {
    let (end, writes) = BINDING.run_and_count().await;
    let claim_spec = json!({
        "v-big": ["Available", null], "v-small": ["Released", "small"], "huge": ["Pending", null],
        "meant": ["Bound", "v-meant"], "v-meant": ["Bound", "meant"],
        "named": ["Bound", "v-named"], "v-named": ["Bound", "named"],
        "doomed": ["Lost", "v-doomed"],
    });
    assert_eq!(end, claim_spec);
    // Four for each of four pairs, at most three to say that volumes are free, one to release and one to lose.
    assert!(writes.all - writes.refused <= 21, "{writes:?}");
    // A status is written without being read first: for each pair one may be refused, because the informer has not shown the write
    // before it.
    assert!(writes.refused <= 4, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn binds_claims_despite_crashes() {
    BINDING.survives_crashes().await;
    BINDING.survives_copies().await;
}

/// Each policy, once the claim is deleted. The pod that wipes a volume is done at once.
const RECLAIM: Scenario = Scenario {
    make,
    setup: |cluster| {
        for policy in ["Retain", "Delete", "Recycle"] {
            let name = policy.to_lowercase();
            let owner = json!({"namespace": "shop", "name": name, "uid": "deleted"});
            let chosen = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
            let spec = json!({"persistentVolumeReclaimPolicy": policy, "claimRef": owner});
            let more = json!({"metadata": chosen, "spec": spec, "status": {"phase": "Bound"}});
            volume(cluster, &name, "1Gi", more);
        }
    },
    play: |cluster| {
        for pod in cluster.api.list::<Pod>() {
            let name = pod.metadata.name.unwrap();
            cluster.api.edit::<Pod>("default", &name, |pod| {
                pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
            });
        }
    },
    end: |cluster| {
        let end = phases(cluster);
        let is_done = end["recycle"][0] == "Available" && end["delete"].is_null();
        is_done.then(|| json!([end, cluster.api.list::<Pod>().len()]))
    },
};

#[tokio::test(start_paused = true)]
async fn reclaims_released_volumes() {
    let (end, _) = RECLAIM.run().await;
    let claim_spec = json!({"retain": ["Released", "retain"], "recycle": ["Available", null]});
    assert_eq!(end, json!([claim_spec, 0]));
}

#[tokio::test(start_paused = true)]
async fn reclaims_volumes_despite_crashes() {
    RECLAIM.survives_crashes().await;
    RECLAIM.survives_copies().await;
}

/// A claim without a class gets the default one, waits for a node, and then for a provisioner.
const MAKING: Scenario = Scenario {
    make,
    setup: |cluster| {
        let marks = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class(cluster, "usual", "WaitForFirstConsumer", &marks);
        claim(cluster, "c", "1Gi", json!({"storageClassName": null}));
    },
    play: |cluster| {
        let Some(claim) = cluster.api.get::<PersistentVolumeClaim>("shop", "c") else {
            return;
        };
        let marks = claim.metadata.annotations.unwrap_or_default();
        let is_classed = claim.spec.unwrap_or_default().storage_class_name.is_some();
        if is_classed && !marks.contains_key("volume.kubernetes.io/selected-node") {
            cluster.api.edit::<PersistentVolumeClaim>("shop", "c", |claim| {
                let marks = claim.metadata.annotations.get_or_insert_default();
                marks.insert("volume.kubernetes.io/selected-node".to_owned(), "n".to_owned());
            });
        }
        let is_asked = marks.get("volume.kubernetes.io/storage-provisioner");
        if is_asked.is_some_and(|who| who == "example.com/disks")
            && cluster.api.list::<PersistentVolume>().is_empty()
        {
            let owner = json!({"namespace": "shop", "name": "c", "uid": claim.metadata.uid});
            let spec = json!({"storageClassName": "usual", "claimRef": owner});
            volume(cluster, "pvc-made", "1Gi", json!({"spec": spec}));
        }
    },
    end: |cluster| {
        let end = phases(cluster);
        (end["c"][0] == "Bound").then(|| json!([end, events(cluster)]))
    },
};

#[tokio::test(start_paused = true)]
async fn assigns_default_class_and_provisions() {
    let (end, _) = MAKING.run().await;
    let claim_spec = json!({"c": ["Bound", "pvc-made"], "pvc-made": ["Bound", "c"]});
    let reported = json!(["ExternalProvisioning", "WaitForFirstConsumer"]);
    assert_eq!(end, json!([claim_spec, reported]));
}

#[tokio::test(start_paused = true)]
async fn provisions_despite_crashes() {
    MAKING.survives_crashes().await;
    MAKING.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn sets_binding_annotations() {
    let cluster = TestCluster::new();
    volume(&cluster, "v", "2Gi", json!({}));
    claim(&cluster, "c", "1Gi", json!({}));
    let _running = cluster.start("one", make);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let bound = cluster.api.get::<PersistentVolumeClaim>("shop", "c").unwrap();
    let marks = bound.metadata.annotations.unwrap();
    assert_eq!(marks["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(marks["pv.kubernetes.io/bound-by-controller"], "yes");
    let status = bound.status.unwrap();
    assert_eq!(status.capacity.unwrap()["storage"].0, "2Gi");
    assert_eq!(status.access_modes.unwrap(), ["ReadWriteOnce"]);
    let volume = cluster.api.get::<PersistentVolume>("", "v").unwrap();
    let marks = volume.metadata.annotations.unwrap();
    assert_eq!(marks["pv.kubernetes.io/bound-by-controller"], "yes");
    let owner = volume.spec.unwrap().claim_ref.unwrap();
    assert_eq!(owner.uid, bound.metadata.uid);
    assert_eq!(
        (owner.kind, owner.api_version),
        (Some("PersistentVolumeClaim".into()), Some("v1".into()))
    );
    cluster.api.clear_requests();
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(cluster.api.writes().len(), 0);
}
