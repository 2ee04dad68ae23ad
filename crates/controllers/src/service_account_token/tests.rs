//! Secrets with tokens, against an API in memory.

use k8s_openapi::api::core::v1::{ObjectReference, Secret, ServiceAccount};
use serde_json::{Value, json};

use super::make_with;
use crate::{
    context::{ControllerContext, Task, TokenSigner},
    resource::{SECRETS, SERVICE_ACCOUNTS},
    testing::{Scenario, TestCluster},
};

fn make(context: &ControllerContext) -> Vec<Task> {
    make_with(context, TokenSigner::new(|claims| format!("signed {claims}")))
}

fn secret(cluster: &TestCluster, name: &str, kind: &str, annotations: &Value, data: &Value) {
    let metadata = json!({"name": name, "namespace": "shop", "annotations": annotations});
    cluster.put(
        &SECRETS,
        json!({"metadata": metadata, "type": kind, "data": data}),
    );
}

/// Secrets of an account are filled, one keeps what it has, one is of another type; two have no account, or have none later.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        let kind = "kubernetes.io/service-account-token";
        for name in ["robot", "leaves"] {
            let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}")});
            cluster.put(&SERVICE_ACCOUNTS, json!({"metadata": metadata}));
        }
        let of = |account: &str| json!({"kubernetes.io/service-account.name": account});
        secret(cluster, "empty", kind, &of("robot"), &json!({}));
        secret(
            cluster,
            "held",
            kind,
            &of("robot"),
            &json!({"token": "aGVsZA==", "extra": "eA=="}),
        );
        secret(cluster, "orphan", kind, &of("absent"), &json!({}));
        secret(cluster, "leaves", kind, &of("leaves"), &json!({}));
        secret(cluster, "other", "Opaque", &of("robot"), &json!({}));
        let mut before = of("robot");
        before["kubernetes.io/service-account.uid"] = "uid-before".into();
        secret(cluster, "before", kind, &before, &json!({}));
    },
    play: |cluster| {
        let seconds = cluster.now().as_second() - 1_767_225_630;
        if seconds >= 10 && cluster.api.get::<ServiceAccount>("shop", "leaves").is_some() {
            cluster.api.remove::<ServiceAccount>("shop", "leaves");
        }
    },
    end: |cluster| {
        let secrets = cluster.api.list::<Secret>().into_iter().map(|secret| {
            let data = secret.data.unwrap_or_default().into_iter();
            let data = data.map(|(name, bytes)| (name, Value::from(String::from_utf8(bytes.0).unwrap())));
            let marks = secret.metadata.annotations.unwrap_or_default();
            let data: serde_json::Map<_, _> = data.collect();
            json!([
                secret.metadata.name,
                marks.get("kubernetes.io/service-account.uid"),
                data
            ])
        });
        let is_late = cluster.now().as_second() > 1_767_225_630 + 20;
        is_late.then(|| secrets.collect())
    },
};

#[tokio::test(start_paused = true)]
async fn fills_token_secrets() {
    let (end, writes) = STORY.run().await;
    let claims = json!({"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:shop:robot",
        "kubernetes.io/serviceaccount/namespace": "shop", "kubernetes.io/serviceaccount/secret.name": "empty",
        "kubernetes.io/serviceaccount/service-account.name": "robot",
        "kubernetes.io/serviceaccount/service-account.uid": "uid-robot"});
    assert_eq!(
        end,
        json!([
            ["empty", "uid-robot", {"namespace": "shop", "token": format!("signed {claims}")}],
            ["held", "uid-robot", {"namespace": "shop", "token": "held", "extra": "x"}],
            ["other", null, {}],
        ])
    );
    assert_eq!(writes, 6);
}

#[tokio::test(start_paused = true)]
async fn removes_references_to_deleted_tokens() {
    let cluster = TestCluster::new();
    (STORY.setup)(&cluster);
    cluster.api.edit::<ServiceAccount>("shop", "robot", |account| {
        let named = ["held", "other", "absent"].map(|name| ObjectReference {
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        });
        account.secrets = Some(named.into());
    });
    let _running = cluster.start("one", make);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    cluster.api.remove::<Secret>("shop", "held");
    cluster.api.remove::<Secret>("shop", "other");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let account = cluster.api.get::<ServiceAccount>("shop", "robot").unwrap();
    let named = account
        .secrets
        .unwrap()
        .into_iter()
        .filter_map(|named| named.name);
    assert_eq!(named.collect::<Vec<_>>(), ["other", "absent"]);
}

#[tokio::test(start_paused = true)]
async fn fills_token_secrets_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
