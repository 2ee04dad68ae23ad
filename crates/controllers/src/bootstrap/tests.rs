//! Bootstrap tokens, against an API in memory.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::{make_cleaner, make_signer};
use crate::{
    context::{ControllerContext, Task},
    resource::{CONFIG_MAPS, SECRETS},
    testing::{Scenario, TestCluster},
};

fn make(context: &ControllerContext) -> Vec<Task> {
    let mut tasks = make_signer(context);
    tasks.extend(make_cleaner(context));
    tasks
}

fn token(cluster: &TestCluster, name: &str, data: &[(&str, &str)]) {
    let data = data.iter().map(|(name, text)| {
        let encoded = k3_api::base64::encode(text.as_bytes());
        ((*name).to_owned(), Value::from(encoded))
    });
    let data: serde_json::Map<_, _> = data.collect();
    let metadata = json!({"name": name, "namespace": "kube-system"});
    cluster.put(
        &SECRETS,
        json!({"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "data": data}),
    );
}

/// One token stays, one expires later, one has expired, one may not sign, one has another's name.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        let secret = ("token-secret", "0123456789abcdef");
        let signs = ("usage-bootstrap-signing", "true");
        token(
            cluster,
            "bootstrap-token-aaaaaa",
            &[("token-id", "aaaaaa"), secret, signs],
        );
        let later = ("expiration", "2026-01-01T00:01:00Z");
        token(
            cluster,
            "bootstrap-token-bbbbbb",
            &[("token-id", "bbbbbb"), secret, signs, later],
        );
        let over = ("expiration", "2026-01-01T00:00:00Z");
        token(
            cluster,
            "bootstrap-token-cccccc",
            &[("token-id", "cccccc"), secret, signs, over],
        );
        token(
            cluster,
            "bootstrap-token-dddddd",
            &[("token-id", "dddddd"), secret],
        );
        token(
            cluster,
            "bootstrap-token-eeeeee",
            &[("token-id", "ffffff"), secret, signs],
        );
        let data = json!({"kubeconfig": "apiVersion: v1", "jws-kubeconfig-zzzzzz": "old", "other": "stays"});
        cluster.put(
            &CONFIG_MAPS,
            json!({"metadata": {"name": "cluster-info", "namespace": "kube-public"}, "data": data}),
        );
    },
    play: |_| {},
    end: |cluster| {
        let cluster_info = cluster.api.get::<ConfigMap>("kube-public", "cluster-info")?;
        let fields: Vec<_> = cluster_info.data.unwrap_or_default().into_keys().collect();
        let tokens: Vec<_> = cluster
            .api
            .list::<Secret>()
            .into_iter()
            .map(|token| token.metadata.name)
            .collect();
        let is_late = cluster.now().as_second() > 1_767_225_630 + 60;
        is_late.then(|| json!([fields, tokens]))
    },
};

#[tokio::test(start_paused = true)]
async fn signs_cluster_info_with_valid_tokens() {
    let (end, writes) = STORY.run().await;
    let tokens = ["aaaaaa", "dddddd", "eeeeee"].map(|id| format!("bootstrap-token-{id}"));
    assert_eq!(
        end,
        json!([["jws-kubeconfig-aaaaaa", "kubeconfig", "other"], tokens])
    );
    assert_eq!(writes, 4);
}

#[tokio::test(start_paused = true)]
async fn signs_cluster_info_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
