//! Environment variables of containers, with all kinds of sources.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kubecontroller::Clock;
use serde_json::{Value, json};

use super::*;
use crate::sources::fake::FakeObjectSources;

/// Environment variables of a container in a namespace with a ConfigMap, a Secret and a service `x`. Omits the variables of the
/// service.
async fn environment(container: Value) -> Result<Vec<String>, EnvironmentError> {
    let sources = Arc::new(FakeObjectSources::default());
    let meta = json!({"namespace": "shop", "name": "x"});
    let map = json!({"metadata": meta, "data": {"b": "2", "a": "1", "odd.name": "3"}});
    sources.put_config_map(serde_json::from_value::<ConfigMap>(map).unwrap());
    let secret = json!({"metadata": meta, "data": {"password": "aHVudGVy"}});
    sources.put_secret(serde_json::from_value::<Secret>(secret).unwrap());
    let service = json!({"metadata": meta, "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}});
    sources.put_service(serde_json::from_value::<Service>(service).unwrap());
    let mut container = container;
    container["name"] = json!("c");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "u"},
        "spec": {"containers": [container], "enableServiceLinks": true}
    }))
    .unwrap();
    let temp = tempfile::tempdir().unwrap();
    let volumes = VolumeManager::new(
        temp.path().into(),
        Arc::<FakeObjectSources>::clone(&sources),
        Clock::system(),
    );
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let environment =
        make_environment_variables(&pod, container, &*sources, &NodeFacts::default(), &[], &volumes).await;
    let declared = environment?
        .into_iter()
        .filter(|(name, _)| !name.starts_with("X_"));
    Ok(declared.map(|(name, value)| format!("{name}={value}")).collect())
}

#[tokio::test]
async fn keeps_order_and_expands_earlier_variables() {
    let container = json!({
        "envFrom": [{"configMapRef": {"name": "x"}}, {"prefix": "S_", "secretRef": {"name": "x"}},
            {"configMapRef": {"name": "none", "optional": true}}],
        "env": [
            {"name": "LATE", "value": "$(EARLY)"},
            {"name": "EARLY", "value": "a is $(a), $(S_password) at $(X_SERVICE_HOST), $$(a) $(NONE)"},
            {"name": "b", "value": "mine"},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "a"}}},
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "x", "key": "password"}}},
            {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "x", "key": "none", "optional": true}}},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "EMPTY"},
            {"name": "NAMES", "value": "$(NAME)$(NAME)"}
        ]
    });
    let expected = [
        "a=1",
        "b=mine",
        "odd.name=3",
        "S_password=hunter",
        "LATE=$(EARLY)",
        "EARLY=a is 1, hunter at 10.0.0.9, $(a) $(NONE)",
        "KEY=1",
        "SECRET=hunter",
        "NAME=web",
        "EMPTY=",
        "NAMES=webweb",
    ];
    assert_eq!(environment(container).await.unwrap(), expected);
}

#[tokio::test]
async fn reports_missing_references_with_messages_of_upstream() {
    for (container, message) in [
        (
            json!({"envFrom": [{"configMapRef": {"name": "y"}}]}),
            "configmap \"y\" not found",
        ),
        (
            json!({"envFrom": [{"secretRef": {"name": "y"}}]}),
            "secret \"y\" not found",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "y"}}}]}),
            "couldn't find key y in ConfigMap shop/x",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]}),
            "couldn't find key y in Secret shop/x",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "y", "key": "y"}}}]}),
            "secret \"y\" not found",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}),
            "cannot find the volume \"v\" referenced by FileKeyRef",
        ),
    ] {
        assert_eq!(
            environment(container.clone()).await.unwrap_err().to_string(),
            message,
            "{container}"
        );
    }
}
