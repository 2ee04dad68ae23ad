//! Objects deleted while in use, against an API in memory.

use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
        storage::v1::VolumeAttributesClass,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kubecontroller::testing::FakeApi;
use serde_json::{Value, json};

use super::{make_for_claims, make_for_classes, make_for_volumes};
use crate::{
    context::{ControllerContext, Task},
    resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, VOLUME_ATTRIBUTES_CLASSES},
    testing::{Scenario, TestCluster},
};

fn make(context: &ControllerContext) -> Vec<Task> {
    let mut tasks = make_for_claims(context);
    tasks.extend(make_for_volumes(context));
    tasks
}

/// Wants an object to go; a finalizer may hold it.
fn request_deletion<K>(api: &FakeApi, namespace: &str, name: &str, now: &Time)
where
    K: kube::Resource<DynamicType = ()>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let Some(object) = api.get::<K>(namespace, name) else {
        return;
    };
    if object
        .meta()
        .finalizers
        .as_ref()
        .is_some_and(|held| !held.is_empty())
    {
        if object.meta().deletion_timestamp.is_none() {
            api.edit::<K>(namespace, name, |object| {
                object.meta_mut().deletion_timestamp = Some(now.clone());
            });
        }
    } else {
        api.remove::<K>(namespace, name);
    }
}

fn remaining_finalizers<K>(api: &FakeApi, namespace: &str, name: &str) -> Option<Value>
where
    K: kube::Resource<DynamicType = ()>
        + serde::Serialize
        + serde::de::DeserializeOwned
        + Clone
        + std::fmt::Debug,
{
    let object = api.get::<K>(namespace, name)?;
    Some(json!(object.meta().finalizers))
}

/// A claim is used by a pod for a while and one is not; a volume is bound for a while and one is not. All are to go.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        for (name, phase) in [("v-used", "Bound"), ("v-free", "Available"), ("v-stays", "Bound")] {
            cluster.put(
                &PERSISTENT_VOLUMES,
                json!({"metadata": {"name": name}, "spec": {}, "status": {"phase": phase}}),
            );
        }
        for name in ["used", "free", "stays"] {
            let claim = json!({"metadata": {"name": name, "namespace": "shop"}, "spec": {}, "status": {"phase": "Bound"}});
            cluster.put(&PERSISTENT_VOLUME_CLAIMS, claim);
        }
        cluster.put(
            &PODS,
            json!({"metadata": {"name": "p", "namespace": "shop"}, "spec": {"nodeName": "n", "containers": [],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]}}),
        );
    },
    play: |cluster| {
        let api = &cluster.api;
        let seconds = cluster.now().as_second() - 1_767_225_630;
        let is_held = |held: Option<Value>| held.is_none_or(|held| !held.is_null());
        if seconds >= 10
            && is_held(remaining_finalizers::<PersistentVolumeClaim>(api, "shop", "used"))
            && is_held(remaining_finalizers::<PersistentVolume>(api, "", "v-used"))
        {
            let now = Time(cluster.now());
            request_deletion::<PersistentVolumeClaim>(api, "shop", "used", &now);
            request_deletion::<PersistentVolumeClaim>(api, "shop", "free", &now);
            request_deletion::<PersistentVolume>(api, "", "v-used", &now);
            request_deletion::<PersistentVolume>(api, "", "v-free", &now);
        }
        if seconds >= 60 && api.get::<Pod>("shop", "p").is_some() {
            api.remove::<Pod>("shop", "p");
            api.edit::<PersistentVolume>("", "v-used", |volume| {
                volume.status.get_or_insert_default().phase = Some("Released".to_owned());
            });
        }
    },
    end: |cluster| {
        let api = &cluster.api;
        let claims = api.list::<PersistentVolumeClaim>().into_iter().map(|claim| {
            let conditions = claim.status.unwrap_or_default().conditions.unwrap_or_default();
            let reported = conditions
                .into_iter()
                .map(|reported| (reported.type_, reported.status, reported.reason));
            json!([
                claim.metadata.name,
                claim.metadata.finalizers,
                reported.collect::<Vec<_>>()
            ])
        });
        let volumes = api.list::<PersistentVolume>().into_iter();
        let volumes = volumes.map(|volume| json!([volume.metadata.name, volume.metadata.finalizers]));
        let is_late = cluster.now().as_second() > 1_767_225_630 + 70;
        is_late.then(|| claims.chain(volumes).collect())
    },
};

#[tokio::test(start_paused = true)]
async fn keeps_objects_in_use() {
    let (end, _) = STORY.run().await;
    let reported = json!([["Unused", "True", "NoPodsUsingPVC"]]);
    assert_eq!(
        end,
        json!([
            ["stays", ["kubernetes.io/pvc-protection"], reported],
            ["v-stays", ["kubernetes.io/pv-protection"]],
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn keeps_objects_in_use_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}

#[tokio::test(start_paused = true)]
async fn keeps_a_used_claim_and_sets_its_condition() {
    let cluster = TestCluster::new();
    (STORY.setup)(&cluster);
    let _running = cluster.start("one", make);
    for _ in 0..120 {
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        (STORY.play)(&cluster);
    }
    let claim = cluster.api.get::<PersistentVolumeClaim>("shop", "used").unwrap();
    assert!(claim.metadata.deletion_timestamp.is_some());
    let reported = claim.status.unwrap().conditions.unwrap();
    assert_eq!(
        (reported[0].status.as_str(), reported[0].reason.as_deref()),
        ("False", Some("PodUsingPVC"))
    );
    assert!(cluster.api.get::<PersistentVolumeClaim>("shop", "free").is_none());
    assert!(cluster.api.get::<PersistentVolume>("", "v-used").is_some());
    assert!(cluster.api.get::<PersistentVolume>("", "v-free").is_none());
}

/// Classes of attributes that are unreferenced, referenced by a claim for a while, and by a volume; all are deleted.
const CLASSES: Scenario = Scenario {
    make: make_for_classes,
    setup: |cluster| {
        for name in ["free", "asked", "left", "held"] {
            let class = json!({"metadata": {"name": name}, "driverName": "d", "parameters": {"a": "b"}});
            cluster.put(&VOLUME_ATTRIBUTES_CLASSES, class);
        }
        cluster.put(
            &PERSISTENT_VOLUMES,
            json!({"metadata": {"name": "v"}, "spec": {"volumeAttributesClassName": "held"}}),
        );
        cluster.put(
            &PERSISTENT_VOLUME_CLAIMS,
            json!({"metadata": {"name": "c", "namespace": "shop"}, "spec": {"volumeAttributesClassName": "asked"},
                "status": {"currentVolumeAttributesClassName": "left"}}),
        );
    },
    play: |cluster| {
        let api = &cluster.api;
        let seconds = cluster.now().as_second() - 1_767_225_630;
        if seconds >= 10 {
            for name in ["free", "asked", "left", "held"] {
                if remaining_finalizers::<VolumeAttributesClass>(api, "", name)
                    .is_some_and(|held| !held.is_null())
                {
                    request_deletion::<VolumeAttributesClass>(api, "", name, &Time(cluster.now()));
                }
            }
        }
        if seconds >= 30 {
            api.edit::<PersistentVolumeClaim>("shop", "c", |claim| {
                claim
                    .status
                    .get_or_insert_default()
                    .current_volume_attributes_class_name = None;
            });
        }
    },
    end: |cluster| {
        let classes = cluster.api.list::<VolumeAttributesClass>().into_iter();
        let left: Vec<_> = classes
            .map(|class| (class.metadata.name, class.metadata.finalizers))
            .collect();
        (cluster.now().as_second() > 1_767_225_630 + 40).then(|| json!(left))
    },
};

#[tokio::test(start_paused = true)]
async fn keeps_a_referenced_volume_attributes_class() {
    let (end, _) = CLASSES.run().await;
    let held = ["kubernetes.io/vac-protection"];
    assert_eq!(end, json!([["asked", held], ["held", held]]));
    CLASSES.survives_crashes().await;
    CLASSES.survives_copies().await;
}
