//! `k3::TestEnv` in the process of a test.

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

use k3::{TestEnv, TestStorage};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Node, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use tokio::time::{sleep, timeout};

use crate::DEFINITION;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_mins(1);

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = timeout(PATIENCE, async {
        while !holds().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    held.await.unwrap_or_else(|_| panic!("{what}"));
}

async fn note(client: Client, text: &str) {
    let map = ConfigMap {
        metadata: named("note"),
        data: Some(BTreeMap::from([("text".to_owned(), text.to_owned())])),
        ..ConfigMap::default()
    };
    let maps = Api::namespaced(client, "default");
    maps.create(&PostParams::default(), &map).await.unwrap();
}

async fn noted(client: Client) -> String {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    maps.get("note").await.unwrap().data.unwrap()["text"].clone()
}

#[tokio::test]
async fn clusters_in_one_process_are_independent() {
    let (a, b, c) = tokio::join!(TestEnv::start(), TestEnv::start(), TestEnv::start());
    let mut envs = vec![a.unwrap(), b.unwrap(), c.unwrap()];
    for (number, env) in envs.iter().enumerate() {
        let accounts: Api<ServiceAccount> = Api::namespaced(env.client(), "default");
        assert!(accounts.get_opt("default").await.unwrap().is_some());
        note(env.client(), &number.to_string()).await;
    }
    let stopped = envs.remove(0);
    let client = stopped.client();
    let kubeconfig = stopped.kubeconfig().to_owned();
    assert!(kubeconfig.exists());
    drop(stopped);
    assert!(!kubeconfig.parent().unwrap().exists());
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    assert!(maps.get("note").await.is_err(), "the server is stopped");
    for (number, env) in envs.iter().enumerate() {
        assert_eq!(noted(env.client()).await, (number + 1).to_string());
    }
}

#[tokio::test]
async fn runs_controllers_with_simulated_nodes_and_definitions() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("widgets.yaml");
    fs::write(&file, DEFINITION).unwrap();
    let env = TestEnv::builder()
        .simulated_nodes(2)
        .crds(&file)
        .storage(TestStorage::File)
        .start()
        .await
        .unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::namespaced_with(env.client(), "shop", &kind);
    let namespaces: Api<Namespace> = Api::all(env.client());
    let shop = Namespace {
        metadata: named("shop"),
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let widget = DynamicObject::new("w", &kind);
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    let nodes: Api<Node> = Api::all(env.client());
    until("two nodes register", async || {
        nodes.list(&ListParams::default()).await.unwrap().items.len() == 2
    })
    .await;
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    until("the namespace is deleted with its content", async || {
        namespaces.get_opt("shop").await.unwrap().is_none()
    })
    .await;
}

#[tokio::test]
async fn a_test_may_block_its_thread() {
    let env = TestEnv::builder().controllers("").start().await.unwrap();
    let output = Command::new("kubectl")
        .args(["create", "namespace", "shop", "-o", "name"])
        .env("KUBECONFIG", env.kubeconfig())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "namespace/shop\n",
        "{output:?}"
    );
}

#[tokio::test]
async fn reports_invalid_options() {
    let error = TestEnv::builder()
        .controllers("no-such")
        .start()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no-such"), "{error}");
    let error = TestEnv::builder().crds("/no/such").start().await.unwrap_err();
    assert!(error.to_string().contains("/no/such"), "{error}");
}
