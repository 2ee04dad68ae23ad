//! The Rust client of the ecosystem, unchanged, against a running k3.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

#[path = "../program/mod.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{WatchStreamExt, watcher},
};
use program::{Server, TestDataDir};
use serde_json::json;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A server, and a client that is its administrator.
struct TestCluster {
    client: Client,
    _server: Server,
    _data: TestDataDir,
}

impl TestCluster {
    async fn start() -> Self {
        let data = TestDataDir::new();
        let server = data.start(&["--storage=memory", "--controllers="]);
        let kubeconfig = Kubeconfig::read_from(data.path().join("admin.kubeconfig")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
        TestCluster {
            client,
            _server: server,
            _data: data,
        }
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..Default::default()
    }
}

#[tokio::test]
async fn objects_are_created_replaced_listed_and_deleted() {
    let cluster = TestCluster::start().await;
    let api = cluster.config_maps();
    let created = api
        .create(&PostParams::default(), &config_map("a", "1"))
        .await
        .unwrap();
    assert!(created.metadata.uid.is_some());
    let mut changed = created.clone();
    changed.data = config_map("a", "2").data;
    api.replace("a", &PostParams::default(), &changed).await.unwrap();
    // The old version is rejected with a conflict.
    let refused = api
        .replace("a", &PostParams::default(), &changed)
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 409),
        "{refused}"
    );
    let listed = api
        .list(&ListParams::default().fields("metadata.name=a"))
        .await
        .unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(listed.items[0].data, changed.data);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn deletes_a_large_collection_and_returns_it_in_order() {
    let cluster = TestCluster::start().await;
    let config_maps = cluster.config_maps();
    // More than one page of deletions, and not a multiple of it.
    let names: Vec<_> = (0..75).map(|number| format!("many-{number:02}")).collect();
    for name in &names {
        let mut one = config_map(name, "");
        one.metadata.labels = Some([("of".to_owned(), "many".to_owned())].into());
        config_maps.create(&PostParams::default(), &one).await.unwrap();
    }
    config_maps
        .create(&PostParams::default(), &config_map("other", ""))
        .await
        .unwrap();
    let many = ListParams::default().labels("of=many");
    let deleted = config_maps
        .delete_collection(&DeleteParams::default(), &many)
        .await
        .unwrap()
        .left()
        .expect("the answer has what was deleted");
    let reported: Vec<_> = deleted.iter().map(ResourceExt::name_any).collect();
    assert_eq!(reported, names);
    let left = config_maps.list(&ListParams::default()).await.unwrap();
    let left: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert!(left.contains(&"other".to_owned()), "{left:?}");
    assert!(!left.iter().any(|name| name.starts_with("many-")), "{left:?}");
}

#[tokio::test]
async fn server_side_apply_sets_managers_and_defaults() {
    let cluster = TestCluster::start().await;
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), "default");
    let desired = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    });
    let params = PatchParams::apply("test");
    let applied = api.patch("web", &params, &Patch::Apply(&desired)).await.unwrap();
    let spec = applied.spec;
    assert_eq!((spec.replicas, spec.revision_history_limit), (Some(1), Some(10)));
    let managers = applied.metadata.managed_fields.unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("test"));
    // Another manager cannot change the image without force.
    let mut other = desired.clone();
    other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
    let refused = api
        .patch("web", &PatchParams::apply("other"), &Patch::Apply(&other))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("conflict with \"test\""),
        "{refused}"
    );
    api.patch("web", &PatchParams::apply("other").force(), &Patch::Apply(&other))
        .await
        .unwrap();
}

#[tokio::test]
async fn watcher_yields_existing_and_new_objects() {
    let cluster = TestCluster::start().await;
    let api = cluster.config_maps();
    api.create(&PostParams::default(), &config_map("before", "1"))
        .await
        .unwrap();
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut changes = watcher(api.clone(), config).applied_objects().boxed();
        let mut next = async || {
            let change = tokio::time::timeout(PATIENCE, changes.try_next()).await;
            change
                .expect("a change arrives in time")
                .unwrap()
                .expect("the watch continues")
                .metadata
                .name
                .unwrap()
        };
        assert_eq!(next().await, "before");
        api.create(&PostParams::default(), &config_map("after", "1"))
            .await
            .unwrap();
        assert_eq!(next().await, "after");
        api.delete("after", &DeleteParams::default()).await.unwrap();
    }
}
