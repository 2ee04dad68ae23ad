//! Tests of the config map mirror.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

#[path = "../src/main.rs"]
#[expect(dead_code, reason = "the test does not call main")]
mod program;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kubecontroller::{
    App,
    manager::{Config, Stop},
    testing::{FakeApi, eventually},
};
use serde_json::json;
use tokio::task::JoinSet;

fn source(to: &str, colour: &str) -> ConfigMap {
    let annotations = json!({"mirror.example.com/to": to});
    let map = json!({
        "metadata": {"name": "settings", "namespace": "default", "annotations": annotations},
        "data": {"colour": colour},
    });
    serde_json::from_value(map).unwrap()
}

/// The copies as `namespace=colour`.
fn copies(api: &FakeApi) -> Vec<String> {
    let maps = api
        .list::<ConfigMap>()
        .into_iter()
        .filter(|map| map.namespace().as_deref() != Some("default"));
    maps.map(|map| {
        format!(
            "{}={}",
            map.namespace().unwrap(),
            map.data.unwrap_or_default()["colour"]
        )
    })
    .collect()
}

/// Waits until the copies are as expected.
async fn until(api: &FakeApi, expected: &[&str]) {
    eventually(|| async {
        let seen = copies(api);
        if seen == expected { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn creates_updates_and_deletes_copies() {
    let api = FakeApi::new();
    api.put(&source("a,b", "blue"));
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(App::new("mirror").register(program::setup).run(
        Config::default(),
        api.client(),
        stop.clone(),
    ));
    until(&api, &["a=blue", "b=blue"]).await;
    api.put(&source("b,c", "red"));
    until(&api, &["b=red", "c=red"]).await;
    // A deleted copy is created again.
    api.remove::<ConfigMap>("b", "settings");
    until(&api, &["b=red", "c=red"]).await;
    api.remove::<ConfigMap>("default", "settings");
    until(&api, &[]).await;
    stop.stop(std::time::Duration::from_secs(5));
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn does_not_overwrite_other_config_maps() {
    let api = FakeApi::new();
    let mut other = source("", "green");
    other.metadata.namespace = Some("a".to_owned());
    api.put(&other);
    api.put(&source("a,b", "blue"));
    let stop = Stop::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(App::new("mirror").register(program::setup).run(
        Config::default(),
        api.client(),
        stop.clone(),
    ));
    eventually(|| async { api.requests().iter().any(|request| request.verb == "watch") }).await;
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    assert_eq!(copies(&api), ["a=green"]);
    stop.stop(std::time::Duration::from_secs(5));
    tasks.join_next().await.unwrap().unwrap().unwrap();
}
