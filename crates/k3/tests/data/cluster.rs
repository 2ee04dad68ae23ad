//! Helpers for requests to a server.

use std::{collections::BTreeMap, path::Path, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::{Instant, sleep};

/// Timeout of any operation.
const PATIENCE: Duration = Duration::from_mins(2);

/// A client with the current content of a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Client {
    client_of(Kubeconfig::read_from(kubeconfig).unwrap()).await
}

pub(crate) async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

/// Creates a config map and returns its uid and revision.
pub(crate) async fn create(client: &Client, name: &str) -> (String, u64) {
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    };
    let made = maps(client).create(&PostParams::default(), &map).await.unwrap();
    identity(&made)
}

/// The uid and the revision of a config map.
pub(crate) async fn read(client: &Client, name: &str) -> (String, u64) {
    identity(&maps(client).get(name).await.unwrap())
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

fn identity(map: &ConfigMap) -> (String, u64) {
    let metadata = &map.metadata;
    let revision = metadata.resource_version.as_ref().unwrap().parse().unwrap();
    (metadata.uid.clone().unwrap(), revision)
}

/// Waits until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let end = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < end, "timed out waiting until {what}");
        sleep(Duration::from_millis(100)).await;
    }
}
