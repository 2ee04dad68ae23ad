//! Evictions when a budget in the store cannot be read.

use http::Method;
use k3_api::encode::encode_stored;
use k3_storage::{Key, Write};
use serde_json::json;

use crate::{backend::Backend, client::Client};

on_every_backend!(unreadable_budget_prevents_eviction);

async fn unreadable_budget_prevents_eviction(backend: &Backend) {
    const POD: &str = "/api/v1/namespaces/default/pods/p";
    let store = backend.open().await;
    let client = Client::start(backend.open().await).await;
    let create = async |key: &str, value: Vec<u8>| {
        let write = Write::create(Key::try_new(key).unwrap(), value);
        store.commit(write).await.unwrap();
    };
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": "p", "namespace": "default", "uid": "00000000-0000-4000-8000-000000000001"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    });
    let pod = encode_stored(pod.as_object().unwrap());
    create("/registry/core/pods/default/p", pod).await;
    let budget = b"no object".to_vec();
    create("/registry/policy/poddisruptionbudgets/default/b", budget).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"}});
    let reply = client
        .retry(Method::POST, &format!("{POD}/eviction"), Some(&eviction))
        .await;
    assert_eq!(reply.code, 500, "{}", reply.text);
    assert!(reply.text.contains("PodDisruptionBudget"), "{}", reply.text);
    let pod = client.get(POD).await;
    assert_eq!(pod.code, 200, "{}", pod.text);
    assert!(
        pod.body["metadata"]["deletionTimestamp"].is_null(),
        "{}",
        pod.text
    );
}
