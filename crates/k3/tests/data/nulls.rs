//! `null` in stored and written objects: watchers tolerate it.

use std::collections::HashSet;

use futures_util::{StreamExt, TryStreamExt, stream};
use k3_storage::{
    Key, Store, Write,
    file::{FileOptions, FileStore},
};
use k3_test_objects::{null_objects, served_kinds, stored};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    cluster::{client, until},
    program::TestDataDir,
};

/// Groups whose objects control controllers and the scheduler, not the server.
const GROUPS: [&str; 8] = [
    "",
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "policy",
    "storage.k8s.io",
];
/// How many objects of a kind there are. All of them are read by the tests of those who read them; this is about the whole.
const OF_EACH: usize = 12;

/// Stores objects with `null`, as an older server may have done.
async fn store_nulls(data: &TestDataDir) -> usize {
    let options = FileOptions::new(data.path().join("objects"));
    let store = FileStore::open(options).await.unwrap();
    let kinds = served_kinds().filter(|kind| GROUPS.contains(&&*kind.group));
    // Versions of a kind share their keys.
    let mut keys = HashSet::new();
    let writes = kinds.flat_map(|kind| {
        let objects = null_objects(kind);
        let step = objects.len().div_ceil(OF_EACH).max(1);
        let some: Vec<_> = objects.into_iter().step_by(step).collect();
        some.into_iter().map(move |mut object| {
            object["metadata"]["uid"] = format!("uid-{}-{}", kind.kind, object["metadata"]["name"]).into();
            let (key, bytes) = stored(kind, &object);
            (key, bytes)
        })
    });
    let writes: Vec<_> = writes
        .filter(|(key, _)| keys.insert(key.clone()))
        .map(|(key, bytes)| Write::create(Key::try_new(&key).unwrap(), bytes))
        .collect();
    let count = writes.len();
    let commits = stream::iter(writes).map(|write| store.commit(write));
    let _: Vec<_> = commits.buffer_unordered(64).try_collect().await.unwrap();
    store.close().await;
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_tolerate_stored_nulls() {
    let data = TestDataDir::new();
    let args = ["--simulated-nodes", "1"];
    assert!(data.start(&args).end_by(Signal::TERM).success());
    assert!(store_nulls(&data).await > 100);
    let server = data.start(&args);
    let client = client(&server.kubeconfig).await;
    // What a node wrote that saw an image without a name.
    let nodes: Api<Node> = Api::all(client.clone());
    let node = json!({"metadata": {"name": "dangling", "labels": null}, "spec": {"taints": null}});
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let status = json!({"status": {"images": [{"names": null, "sizeBytes": 7}], "conditions": null}});
    let patch = Patch::Merge(status);
    nodes
        .patch_status("dangling", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let written = nodes
        .get("dangling")
        .await
        .unwrap()
        .status
        .unwrap()
        .images
        .unwrap();
    assert_eq!(
        (written.len(), &written[0].names),
        (1, &None),
        "as upstream writes it"
    );
    let deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}, "matchExpressions": null},
        "template": {"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {
            "containers": [{"name": "c", "image": "i", "ports": null, "env": null, "resources": null}], "volumes": null,
        }},
    }});
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let deployment = serde_json::from_value(deployment).unwrap();
    deployments
        .create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client);
    until("both pods of the deployment run", || async {
        let params = kube::api::ListParams::default().labels("app=web");
        let pods = pods.list(&params).await.unwrap().items;
        let runs = |pod: &&Pod| {
            let status = pod.status.as_ref();
            status.is_some_and(|status| status.phase.as_deref() == Some("Running"))
        };
        pods.iter().filter(runs).count() == 2
    })
    .await;
    let log = data.log();
    assert!(!log.contains("cannot be read"), "{log}");
}
