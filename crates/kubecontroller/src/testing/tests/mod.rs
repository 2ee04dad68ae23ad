//! Tests of the fake API.

mod faults;
mod objects;
mod watches;

use futures_util::{Stream, StreamExt, TryStreamExt};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, api::WatchEvent};
use serde_json::{Value, json};

use super::FakeApi;

fn map(name: &str, labels: &[(&str, &str)]) -> ConfigMap {
    let labels: Value = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default", "labels": labels}}))
        .unwrap()
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {}, "template": {}},
    });
    serde_json::from_value(value).unwrap()
}

fn maps(api: &FakeApi) -> Api<ConfigMap> {
    Api::namespaced(api.client(), "default")
}

fn deployments(api: &FakeApi) -> Api<Deployment> {
    Api::namespaced(api.client(), "default")
}

/// The status code of an error; 0 if the connection broke.
fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        _ => 0,
    }
}

fn describe<K: kube::ResourceExt>(event: &WatchEvent<K>) -> String {
    match event {
        WatchEvent::Added(object) => format!("+{}", object.name_any()),
        WatchEvent::Modified(object) => format!("~{}", object.name_any()),
        WatchEvent::Deleted(object) => format!("-{}", object.name_any()),
        WatchEvent::Bookmark(mark) => format!("={}", mark.metadata.annotations.len()),
        WatchEvent::Error(status) => format!("!{}", status.code),
    }
}

async fn take<K: kube::ResourceExt>(
    events: &mut (impl Stream<Item = Result<WatchEvent<K>, kube::Error>> + Unpin),
    n: usize,
) -> String {
    let events: Vec<_> = events
        .take(n)
        .map_ok(|event| describe(&event))
        .try_collect()
        .await
        .unwrap();
    events.join(" ")
}
