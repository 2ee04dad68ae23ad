//! Copies come, follow and go.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the answer")]

#[path = "../src/main.rs"]
#[expect(dead_code, reason = "the program is not run here")]
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

/// The namespaces with copies, and what the copies say.
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

/// Waits until the copies are these.
async fn until(api: &FakeApi, wanted: &[&str]) {
    eventually(|| async {
        let seen = copies(api);
        if seen == wanted { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn copies_come_follow_and_go() {
    let api = FakeApi::new();
    api.put(&source("a,b", "blue"));
    let (stop, mut tasks) = (Stop::new(), JoinSet::new());
    tasks.spawn(App::new("mirror").register(program::setup).run(
        Config::default(),
        api.client(),
        stop.clone(),
    ));
    until(&api, &["a=blue", "b=blue"]).await;
    api.put(&source("b,c", "red"));
    until(&api, &["b=red", "c=red"]).await;
    // Somebody deletes a copy: it comes back.
    api.remove::<ConfigMap>("b", "settings");
    until(&api, &["b=red", "c=red"]).await;
    api.remove::<ConfigMap>("default", "settings");
    until(&api, &[]).await;
    stop.stop(std::time::Duration::from_secs(5));
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_no_copy_is_left_alone() {
    let api = FakeApi::new();
    let mut other = source("", "green");
    other.metadata.namespace = Some("a".to_owned());
    api.put(&other);
    api.put(&source("a,b", "blue"));
    let (stop, mut tasks) = (Stop::new(), JoinSet::new());
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
