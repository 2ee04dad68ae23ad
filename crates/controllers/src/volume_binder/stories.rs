//! Claims and volumes against an API in memory.

use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::make;
use crate::{
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES},
    testing::{Stage, Story},
};

fn volume(stage: &Stage, name: &str, size: &str, more: Value) {
    let whole = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"], "storageClassName": "manual", "hostPath": {"path": "/tmp/x"},
        "persistentVolumeReclaimPolicy": "Retain"}});
    stage.put(
        &PERSISTENT_VOLUMES,
        k3_api::patch::merge::apply(whole, more).unwrap(),
    );
}

fn claim(stage: &Stage, name: &str, size: &str, spec: Value) {
    let whole = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
        "resources": {"requests": {"storage": size}}});
    let spec = k3_api::patch::merge::apply(whole, spec).unwrap();
    stage.put(
        &PERSISTENT_VOLUME_CLAIMS,
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec, "status": {"phase": "Pending"}}),
    );
}

fn class(stage: &Stage, name: &str, mode: &str, annotations: &Value) {
    stage.put(
        &STORAGE_CLASSES,
        json!({"metadata": {"name": name, "annotations": annotations}, "provisioner": "example.com/disks",
            "volumeBindingMode": mode}),
    );
}

/// The phase of each volume and claim, and what it has.
fn phases(stage: &Stage) -> Value {
    let mut all = serde_json::Map::new();
    for volume in stage.api.list::<PersistentVolume>() {
        let spec = volume.spec.unwrap_or_default();
        let owner = spec.claim_ref.and_then(|owner| owner.name);
        let phase = volume.status.and_then(|status| status.phase);
        all.insert(volume.metadata.name.unwrap(), json!([phase, owner]));
    }
    for claim in stage.api.list::<PersistentVolumeClaim>() {
        let has = claim.spec.and_then(|spec| spec.volume_name);
        let phase = claim.status.and_then(|status| status.phase);
        all.insert(claim.metadata.name.unwrap(), json!([phase, has]));
    }
    all.into()
}

fn events(stage: &Stage) -> Vec<String> {
    let events = stage.api.list::<Event>().into_iter();
    let mut reasons: Vec<_> = events.filter_map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

/// A claim gets the smaller of two volumes, one waits in vain, one has the volume it asked for, a volume is meant for a claim;
/// later one claim goes, and one volume.
const BINDING: Story = Story {
    make,
    setup: |stage| {
        let free = json!({"status": {"phase": "Available"}});
        volume(stage, "v-small", "1Gi", free.clone());
        volume(stage, "v-big", "9Gi", free);
        volume(
            stage,
            "v-named",
            "9Gi",
            json!({"spec": {"storageClassName": "other"}}),
        );
        let owner = json!({"namespace": "shop", "name": "meant"});
        volume(stage, "v-meant", "9Gi", json!({"spec": {"claimRef": owner}}));
        volume(
            stage,
            "v-doomed",
            "1Gi",
            json!({"spec": {"storageClassName": "doomed"}}),
        );
        claim(stage, "small", "1Gi", json!({}));
        claim(stage, "huge", "99Gi", json!({}));
        claim(stage, "meant", "1Gi", json!({}));
        claim(stage, "doomed", "1Gi", json!({"storageClassName": "doomed"}));
        claim(
            stage,
            "named",
            "1Gi",
            json!({"storageClassName": "other", "volumeName": "v-named"}),
        );
    },
    play: |stage| {
        let seconds = stage.now().as_second() - 1_767_225_630;
        if seconds >= 20 && stage.api.get::<PersistentVolumeClaim>("shop", "small").is_some() {
            stage.api.remove::<PersistentVolumeClaim>("shop", "small");
            stage.api.remove::<PersistentVolume>("", "v-doomed");
        }
    },
    end: |stage| {
        let is_late = stage.now().as_second() > 1_767_225_630 + 40;
        is_late.then(|| phases(stage))
    },
};

#[tokio::test(start_paused = true)]
async fn claims_get_the_volumes_that_fit_them() {
    let (end, writes) = BINDING.run().await;
    let want = json!({
        "v-big": ["Available", null], "v-small": ["Released", "small"], "huge": ["Pending", null],
        "meant": ["Bound", "v-meant"], "v-meant": ["Bound", "meant"],
        "named": ["Bound", "v-named"], "v-named": ["Bound", "named"],
        "doomed": ["Lost", "v-doomed"],
    });
    assert_eq!(end, want);
    // Four for each of four pairs, at most three to say that volumes are free, one to release and one to lose.
    assert!(writes <= 21, "{writes} writes");
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_claims_get_the_volumes_that_fit_them() {
    BINDING.survives_crashes().await;
    BINDING.survives_copies().await;
}

/// Each policy, once the claim is gone. The pod that wipes a volume is done at once.
const RECLAIM: Story = Story {
    make,
    setup: |stage| {
        for policy in ["Retain", "Delete", "Recycle"] {
            let name = policy.to_lowercase();
            let owner = json!({"namespace": "shop", "name": name, "uid": "gone"});
            let chosen = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
            let spec = json!({"persistentVolumeReclaimPolicy": policy, "claimRef": owner});
            let more = json!({"metadata": chosen, "spec": spec, "status": {"phase": "Bound"}});
            volume(stage, &name, "1Gi", more);
        }
    },
    play: |stage| {
        for pod in stage.api.list::<Pod>() {
            let name = pod.metadata.name.unwrap();
            stage.api.edit::<Pod>("default", &name, |pod| {
                pod.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
            });
        }
    },
    end: |stage| {
        let end = phases(stage);
        let is_done = end["recycle"][0] == "Available" && end["delete"].is_null();
        is_done.then(|| json!([end, stage.api.list::<Pod>().len()]))
    },
};

#[tokio::test(start_paused = true)]
async fn volumes_without_a_claim_are_kept_deleted_or_wiped() {
    let (end, _) = RECLAIM.run().await;
    let want = json!({"retain": ["Released", "retain"], "recycle": ["Available", null]});
    assert_eq!(end, json!([want, 0]));
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_volumes_without_a_claim_are_kept_deleted_or_wiped() {
    RECLAIM.survives_crashes().await;
    RECLAIM.survives_copies().await;
}

/// A claim without a class gets the default one, waits for a node, and then for somebody who makes a volume.
const MAKING: Story = Story {
    make,
    setup: |stage| {
        let marks = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        class(stage, "usual", "WaitForFirstConsumer", &marks);
        claim(stage, "c", "1Gi", json!({"storageClassName": null}));
    },
    play: |stage| {
        let Some(claim) = stage.api.get::<PersistentVolumeClaim>("shop", "c") else {
            return;
        };
        let marks = claim.metadata.annotations.unwrap_or_default();
        let is_classed = claim.spec.unwrap_or_default().storage_class_name.is_some();
        if is_classed && !marks.contains_key("volume.kubernetes.io/selected-node") {
            stage.api.edit::<PersistentVolumeClaim>("shop", "c", |claim| {
                let marks = claim.metadata.annotations.get_or_insert_default();
                marks.insert("volume.kubernetes.io/selected-node".to_owned(), "n".to_owned());
            });
        }
        let is_asked = marks.get("volume.kubernetes.io/storage-provisioner");
        if is_asked.is_some_and(|who| who == "example.com/disks")
            && stage.api.list::<PersistentVolume>().is_empty()
        {
            let owner = json!({"namespace": "shop", "name": "c", "uid": claim.metadata.uid});
            let spec = json!({"storageClassName": "usual", "claimRef": owner});
            volume(stage, "pvc-made", "1Gi", json!({"spec": spec}));
        }
    },
    end: |stage| {
        let end = phases(stage);
        (end["c"][0] == "Bound").then(|| json!([end, events(stage)]))
    },
};

#[tokio::test(start_paused = true)]
async fn a_claim_gets_the_default_class_and_a_volume_made_for_it() {
    let (end, _) = MAKING.run().await;
    let want = json!({"c": ["Bound", "pvc-made"], "pvc-made": ["Bound", "c"]});
    let told = json!(["ExternalProvisioning", "WaitForFirstConsumer"]);
    assert_eq!(end, json!([want, told]));
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_a_claim_gets_a_volume_made_for_it() {
    MAKING.survives_crashes().await;
    MAKING.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_bound_carries_the_marks_of_a_binding() {
    let stage = Stage::new();
    volume(&stage, "v", "2Gi", json!({}));
    claim(&stage, "c", "1Gi", json!({}));
    let _running = stage.start("one", make);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let bound = stage.api.get::<PersistentVolumeClaim>("shop", "c").unwrap();
    let marks = bound.metadata.annotations.unwrap();
    assert_eq!(marks["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(marks["pv.kubernetes.io/bound-by-controller"], "yes");
    let status = bound.status.unwrap();
    assert_eq!(status.capacity.unwrap()["storage"].0, "2Gi");
    assert_eq!(status.access_modes.unwrap(), ["ReadWriteOnce"]);
    let volume = stage.api.get::<PersistentVolume>("", "v").unwrap();
    let marks = volume.metadata.annotations.unwrap();
    assert_eq!(marks["pv.kubernetes.io/bound-by-controller"], "yes");
    let owner = volume.spec.unwrap().claim_ref.unwrap();
    assert_eq!(owner.uid, bound.metadata.uid);
    assert_eq!(
        (owner.kind, owner.api_version),
        (Some("PersistentVolumeClaim".into()), Some("v1".into()))
    );
    stage.api.clear_requests();
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(stage.api.writes().len(), 0);
}
