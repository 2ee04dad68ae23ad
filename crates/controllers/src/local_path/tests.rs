//! Claims and node directories, with the binder, against an API in memory.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::make_in;
use crate::{
    context::{ControllerContext, Task},
    resource::{NODES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES},
    testing::Scenario,
    volume_binder,
};

fn make(context: &ControllerContext) -> Vec<Task> {
    let mut tasks = volume_binder::make(context);
    tasks.extend(make_in(context, "/data/volumes/"));
    tasks
}

fn choose(claim: &mut PersistentVolumeClaim, node: &str) {
    let marks = claim.metadata.annotations.get_or_insert_default();
    marks.insert("volume.kubernetes.io/selected-node".to_owned(), node.to_owned());
}

/// Two claims get volumes on the node that is chosen for them, one of them at the second try; then one claim is deleted.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        let marks = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        cluster.put(
            &STORAGE_CLASSES,
            json!({"metadata": {"name": "local-path", "annotations": marks}, "provisioner": "k3.io/local-path",
                "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"}),
        );
        cluster.put(
            &NODES,
            json!({"metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "host"}}}),
        );
        for name in ["keeps", "deleted"] {
            cluster.put(
                &PERSISTENT_VOLUME_CLAIMS,
                json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}, "spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
            );
        }
        cluster
            .api
            .edit::<PersistentVolumeClaim>("shop", "keeps", |claim| choose(claim, "absent"));
    },
    play: |cluster| {
        let seconds = cluster.now().as_second() - 1_767_225_630;
        for claim in cluster.api.list::<PersistentVolumeClaim>() {
            let name = claim.metadata.name.unwrap();
            let marks = claim.metadata.annotations.unwrap_or_default();
            let has_class = claim.spec.unwrap_or_default().storage_class_name.is_some();
            if has_class && !marks.contains_key("volume.kubernetes.io/selected-node") {
                cluster
                    .api
                    .edit::<PersistentVolumeClaim>("shop", &name, |claim| choose(claim, "n"));
            }
        }
        let is_bound = cluster
            .api
            .get::<PersistentVolume>("", "pvc-uid-deleted")
            .is_some();
        if seconds >= 30 && is_bound {
            cluster.api.remove::<PersistentVolumeClaim>("shop", "deleted");
        }
    },
    end: |cluster| {
        let claims = cluster.api.list::<PersistentVolumeClaim>().into_iter();
        let claims: Vec<_> = claims
            .map(|claim| json!([claim.metadata.name, claim.status.and_then(|status| status.phase)]))
            .collect();
        let volumes = cluster.api.list::<PersistentVolume>().into_iter().map(|volume| {
            let spec = volume.spec.unwrap_or_default();
            let affinity = json!(spec.node_affinity);
            let terms = &affinity["required"]["nodeSelectorTerms"];
            let path = spec.host_path.map(|directory| directory.path);
            json!([
                volume.metadata.name,
                path,
                terms[0]["matchExpressions"][0]["values"]
            ])
        });
        let volumes: Vec<Value> = volumes.collect();
        let is_late = cluster.now().as_second() > 1_767_225_630 + 40;
        is_late.then(|| json!({"claims": claims, "volumes": volumes}))
    },
};

#[tokio::test(start_paused = true)]
async fn provisions_node_directories() {
    let (end, _) = STORY.run().await;
    let path = "/data/volumes/pvc-uid-keeps_shop_keeps";
    assert_eq!(
        end,
        json!({"claims": [["keeps", "Bound"]], "volumes": [["pvc-uid-keeps", path, ["host"]]]})
    );
}

#[tokio::test(start_paused = true)]
async fn provisions_node_directories_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
