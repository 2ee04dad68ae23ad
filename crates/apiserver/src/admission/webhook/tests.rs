//! Webhooks, as a real server in this process.

use std::sync::Arc;

use k3_api::{
    base64,
    strategy::{Tree, TreeMut},
};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::super::{
    AdmissionChain, Operation,
    testing::{AdmissionOutcome, TestCluster, TestRequest, widgets},
};
use crate::outgoing::testing::{FakeResponse, FakeWebhookServer};

const MUTATING: &str = "MutatingWebhookConfiguration";
const VALIDATING: &str = "ValidatingWebhookConfiguration";

struct Cluster {
    world: TestCluster,
    admission: AdmissionChain,
}

impl Cluster {
    async fn new() -> Self {
        let world = TestCluster::new().await;
        let admission = world.admission();
        let namespace = json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": "n", "labels": {"team": "a"}}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        world.put(namespace).await;
        Cluster { world, admission }
    }

    /// Configures webhooks: each is what is said of it over a complete one.
    async fn configure(&self, kind: &str, name: &str, hooks: &[(&FakeWebhookServer, &str, Value)]) {
        let hooks: Vec<Value> = hooks
            .iter()
            .map(|(callee, path, with)| {
                let mut hook = json!({
                    "name": format!("{}.example.com", path.trim_start_matches('/')),
                    "clientConfig": callee.client(path),
                    "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"], "scope": "*"}],
                    "failurePolicy": "Fail",
                    "matchPolicy": "Equivalent",
                    "namespaceSelector": {},
                    "objectSelector": {},
                    "sideEffects": "None",
                    "timeoutSeconds": 30,
                    "admissionReviewVersions": ["v1"],
                });
                for (name, value) in with.as_object().unwrap() {
                    hook.set(name, value.clone());
                }
                hook
            })
            .collect();
        let configuration = json!({"kind": kind, "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": name}, "webhooks": hooks});
        self.world.put(configuration).await;
    }

    async fn create(&self, object: Value) -> Result<AdmissionOutcome, String> {
        self.pass(TestRequest::create(object)).await
    }

    async fn pass(&self, request: TestRequest<'_>) -> Result<AdmissionOutcome, String> {
        let passed = self.world.pass(&self.admission, request).await;
        passed.map_err(|status| status.message)
    }
}

fn config_map(data: &Value) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", "namespace": "n", "labels": {"a": "1"}}, "data": data})
}

/// An answer to a review.
fn answer(review: &Value, response: &Value) -> FakeResponse {
    let mut response = response.clone();
    response.set("uid", review["request"]["uid"].clone());
    FakeResponse::Json(
        json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}),
    )
}

fn patch(operations: &Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": base64::encode(operations.to_string().as_bytes())})
}

/// A server whose webhook `/x` appends `x` to the data under `trace`.
async fn tracer() -> FakeWebhookServer {
    FakeWebhookServer::new(|path, review| {
        let name = path.trim_start_matches('/').split('?').next().unwrap();
        let before = review["request"]["object"]["data"]["trace"]
            .as_str()
            .unwrap_or_default();
        answer(
            review,
            &patch(&json!([{"op": "add", "path": "/data/trace", "value": format!("{before}{name}")}])),
        )
    })
    .await
}

#[tokio::test]
async fn denial_reaches_client() {
    let callee = FakeWebhookServer::new(|_, review| {
        answer(
            review,
            &json!({"allowed": false, "status": {"message": "not on my watch", "code": 403, "reason": "Forbidden"},
                "warnings": ["careful"]}),
        )
    })
    .await;
    for kind in [MUTATING, VALIDATING] {
        let cluster = Cluster::new().await;
        cluster
            .configure(kind, "c", &[(&callee, "/deny", json!({}))])
            .await;
        let request = TestRequest::create(config_map(&json!({})));
        let status = cluster.world.pass(&cluster.admission, request).await.unwrap_err();
        assert_eq!(
            status.to_value(),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "admission webhook \"deny.example.com\" denied the request: not on my watch"})
        );
        assert_eq!(*status.warnings, ["careful"]);
    }
}

#[tokio::test]
async fn mutation_is_audited() {
    let callee = tracer().await;
    let cluster = Cluster::new().await;
    cluster
        .configure(MUTATING, "c", &[(&callee, "/a", json!({}))])
        .await;
    let passed = cluster.create(config_map(&json!({}))).await.unwrap();
    assert_eq!(passed.object["data"], json!({"trace": "a"}));
    let notes: Vec<(&str, Value)> = passed
        .notes
        .iter()
        .map(|(key, value)| (key.as_str(), serde_json::from_str(value).unwrap()))
        .collect();
    assert_eq!(
        notes,
        [
            (
                "mutation.webhook.admission.k8s.io/round_0_index_0",
                json!({"configuration": "c", "webhook": "a.example.com", "mutated": true})
            ),
            (
                "patch.webhook.admission.k8s.io/round_0_index_0",
                json!({"configuration": "c", "webhook": "a.example.com", "patchType": "JSONPatch",
                    "patch": [{"op": "add", "path": "/data/trace", "value": "a"}]})
            ),
        ]
    );
}

#[tokio::test]
async fn review_has_all_request_attributes() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": true}))).await;
    let cluster = Cluster::new().await;
    cluster
        .configure(VALIDATING, "c", &[(&callee, "/see", json!({}))])
        .await;
    let new = config_map(&json!({"k": "new"}));
    let old = config_map(&json!({"k": "old"}));
    let requests = [
        TestRequest {
            query: "fieldManager=me&fieldValidation=Strict",
            ..TestRequest::create(new.clone())
        },
        TestRequest {
            operation: Operation::Update,
            old: Some(old.clone()),
            query: "dryRun=All",
            dry_run: true,
            ..TestRequest::create(new.clone())
        },
        TestRequest {
            operation: Operation::Delete,
            query: "propagationPolicy=Orphan",
            ..TestRequest::create(old.clone())
        },
    ];
    for request in requests {
        cluster.pass(request).await.unwrap();
    }
    let common = json!({
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "name": "c",
        "namespace": "n",
        "userInfo": {"username": "tester", "groups": ["system:masters"]},
        "dryRun": false,
    });
    let expected = [
        json!({"operation": "CREATE", "object": new, "oldObject": null, "options":
            {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "fieldValidation": "Strict"}}),
        json!({"operation": "UPDATE", "object": new, "oldObject": old, "dryRun": true, "options":
            {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]}}),
        json!({"operation": "DELETE", "object": null, "oldObject": old, "options":
            {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Orphan"}}),
    ];
    for (mut call, expected) in callee.calls().into_iter().zip(expected) {
        let mut whole = common.clone();
        for (name, value) in expected.as_object().unwrap() {
            whole.set(name, value.clone());
        }
        call["request"].remove("uid").unwrap();
        assert_eq!(
            call,
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": whole})
        );
    }
}

#[tokio::test]
async fn failure_policy_decides_about_failing_webhook() {
    let callee = FakeWebhookServer::new(|path, review| match path.split('?').next().unwrap() {
        "/slow" => FakeResponse::Never,
        "/nonsense" => FakeResponse::Text(200, "hello"),
        "/broken" => FakeResponse::Text(500, "out of order"),
        "/other" => FakeResponse::Json(
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {"uid": "x"}}),
        ),
        _ => answer(review, &patch(&json!([{"op": "remove", "path": "/nowhere"}]))),
    })
    .await;
    for (path, why) in [
        (
            "/slow",
            format!(
                "failed to call webhook: Post \"https://{}/slow?timeout=1s\": context deadline exceeded",
                callee.address
            ),
        ),
        (
            "/nonsense",
            "failed to call webhook: couldn't get version/kind; json parse error: invalid character 'h' looking for beginning \
             of value"
                .to_owned(),
        ),
        (
            "/broken",
            "failed to call webhook: an error on the server (\"out of order\") has prevented the request from succeeding"
                .to_owned(),
        ),
    ] {
        for kind in [MUTATING, VALIDATING] {
            let cluster = Cluster::new().await;
            let with = json!({"timeoutSeconds": if path == "/slow" { 1 } else { 30 }});
            cluster.configure(kind, "c", &[(&callee, path, with.clone())]).await;
            let name = path.trim_start_matches('/');
            assert_eq!(
                cluster.create(config_map(&json!({}))).await.unwrap_err(),
                format!("Internal error occurred: failed calling webhook \"{name}.example.com\": {why}")
            );
            let mut with = with;
            with.set("failurePolicy", "Ignore");
            let cluster = Cluster::new().await;
            cluster.configure(kind, "c", &[(&callee, path, with)]).await;
            let passed = cluster.create(config_map(&json!({}))).await.unwrap();
            let sort = if kind == MUTATING { "mutation" } else { "validating" };
            let key = format!("failed-open.{sort}.webhook.admission.k8s.io/round_0_index_0");
            assert_eq!(passed.notes.get(&key), Some(&format!("{name}.example.com")));
        }
    }
    let cluster = Cluster::new().await;
    cluster
        .configure(VALIDATING, "c", &[(&callee, "/other", json!({}))])
        .await;
    let error = cluster.create(config_map(&json!({}))).await.unwrap_err();
    assert!(
        error.contains("received invalid webhook response: expected response.uid="),
        "{error}"
    );
}

#[tokio::test]
async fn inapplicable_patch_fails_request_despite_failure_policy() {
    let callee = FakeWebhookServer::new(|_, review| {
        answer(review, &patch(&json!([{"op": "remove", "path": "/nowhere"}])))
    })
    .await;
    let cluster = Cluster::new().await;
    let with = json!({"failurePolicy": "Ignore"});
    cluster
        .configure(MUTATING, "c", &[(&callee, "/patch", with)])
        .await;
    let error = cluster.create(config_map(&json!({}))).await.unwrap_err();
    assert!(error.starts_with("Internal error occurred: "), "{error}");
    let request = TestRequest {
        operation: Operation::Delete,
        ..TestRequest::create(config_map(&json!({})))
    };
    assert_eq!(
        cluster.pass(request).await.unwrap_err(),
        "Internal error occurred: admission webhook \"patch.example.com\" attempted to modify the object, which is not \
         supported for this operation"
    );
}

#[tokio::test]
async fn webhooks_run_in_configuration_name_order_and_are_reinvoked() {
    let callee = tracer().await;
    let cluster = Cluster::new().await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    cluster
        .configure(MUTATING, "z", &[(&callee, "/c", json!({}))])
        .await;
    let hooks = [(&callee, "/a", again), (&callee, "/b", json!({}))];
    cluster.configure(MUTATING, "k", &hooks).await;
    let passed = cluster.create(config_map(&json!({}))).await.unwrap();
    assert_eq!(passed.object["data"]["trace"], "abca");
    assert!(
        passed
            .notes
            .contains_key("mutation.webhook.admission.k8s.io/round_1_index_0")
    );
}

#[tokio::test]
async fn plugins_run_again_after_webhook_mutation() {
    let callee = FakeWebhookServer::new(|_, review| {
        let operations = json!([{"op": "add", "path": "/spec/tolerations", "value": []}]);
        answer(review, &patch(&operations))
    })
    .await;
    let cluster = Cluster::new().await;
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "default", "namespace": "n"}});
    cluster.world.put(account).await;
    cluster
        .configure(MUTATING, "c", &[(&callee, "/p", json!({}))])
        .await;
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let passed = cluster.create(pod).await.unwrap();
    // The webhook took away what a plugin had added; the plugin adds it again.
    assert_eq!(passed.object.at("spec").items("tolerations").len(), 2);
    assert_eq!(callee.calls().len(), 1);
}

#[tokio::test]
async fn validating_webhooks_run_in_parallel() {
    let barrier = Arc::new(Barrier::new(2));
    let callee = FakeWebhookServer::new(move |_, review| {
        let FakeResponse::Json(answer) = answer(
            review,
            &json!({"allowed": true, "warnings": ["w"], "auditAnnotations": {"k": "v"}}),
        ) else {
            unreachable!()
        };
        FakeResponse::Together(Arc::clone(&barrier), answer)
    })
    .await;
    let cluster = Cluster::new().await;
    let hooks = [(&callee, "/a", json!({})), (&callee, "/b", json!({}))];
    cluster.configure(VALIDATING, "c", &hooks).await;
    let passed = cluster.create(config_map(&json!({}))).await.unwrap();
    assert_eq!(passed.warnings, ["w", "w"]);
    assert_eq!(passed.notes["a.example.com/k"], "v");
}

#[tokio::test]
async fn webhook_matches_its_rules() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": false}))).await;
    let rule = |with: Value| {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
        for (name, value) in with.as_object().unwrap() {
            rule.set(name, value.clone());
        }
        json!({"rules": [rule]})
    };
    for (with, is_asked) in [
        (rule(json!({})), true),
        (rule(json!({"operations": ["UPDATE", "DELETE"]})), false),
        (rule(json!({"apiGroups": ["apps"]})), false),
        (rule(json!({"apiVersions": ["v2"]})), false),
        (
            rule(json!({"resources": ["secrets", "configmaps/status"]})),
            false,
        ),
        (rule(json!({"resources": ["secrets", "*"]})), true),
        (rule(json!({"scope": "Cluster"})), false),
        (rule(json!({"scope": "Namespaced"})), true),
        (json!({"rules": []}), false),
        (json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), true),
        (
            json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}),
            false,
        ),
        (json!({"objectSelector": {"matchLabels": {"a": "1"}}}), true),
        (json!({"objectSelector": {"matchLabels": {"a": "2"}}}), false),
    ] {
        let cluster = Cluster::new().await;
        let hooks = [(&callee, "/deny", with.clone())];
        cluster.configure(VALIDATING, "c", &hooks).await;
        let passed = cluster.create(config_map(&json!({}))).await;
        assert_eq!(passed.is_err(), is_asked, "{with}");
    }
}

#[tokio::test]
async fn equivalent_match_converts_object() {
    let callee = FakeWebhookServer::new(|_, review| {
        let operations =
            json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 70}]);
        answer(review, &patch(&operations))
    })
    .await;
    let scaler = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2",
        "metadata": {"name": "h", "namespace": "n"}, "spec": {"maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    for (policy, calls) in [("Exact", 0), ("Equivalent", 1)] {
        let cluster = Cluster::new().await;
        let with = json!({"matchPolicy": policy, "rules": [{"operations": ["*"], "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]});
        cluster.configure(MUTATING, "c", &[(&callee, "/h", with)]).await;
        let passed = cluster.create(scaler.clone()).await.unwrap();
        assert_eq!(callee.calls().len(), calls, "{policy}");
        let used = passed.object["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"].clone();
        assert_eq!(used, if calls == 0 { 50 } else { 70 });
        assert_eq!(passed.object["apiVersion"], "autoscaling/v2");
    }
    let request = &callee.calls()[0]["request"];
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    assert_eq!(
        [&request["kind"]["version"], &request["requestKind"]["version"]],
        ["v1", "v2"]
    );
}

#[tokio::test]
async fn dry_run_skips_webhooks_with_side_effects() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": true}))).await;
    for (effects, is_asked) in [
        ("None", true),
        ("NoneOnDryRun", true),
        ("Some", false),
        ("Unknown", false),
    ] {
        let cluster = Cluster::new().await;
        let with = json!({"sideEffects": effects, "failurePolicy": "Ignore"});
        cluster
            .configure(VALIDATING, "c", &[(&callee, "/dry", with)])
            .await;
        let request = TestRequest {
            dry_run: true,
            ..TestRequest::create(config_map(&json!({})))
        };
        match cluster.pass(request).await {
            Ok(_) => assert!(is_asked, "{effects}"),
            Err(error) => {
                assert!(!is_asked, "{effects}");
                assert_eq!(
                    error,
                    "admission webhook \"dry.example.com\" does not support dry run"
                );
            }
        }
    }
}

#[tokio::test]
async fn webhook_configurations_are_exempt() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": false}))).await;
    let cluster = Cluster::new().await;
    cluster
        .configure(VALIDATING, "c", &[(&callee, "/deny", json!({}))])
        .await;
    let other = json!({"kind": VALIDATING, "apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "other"}});
    assert!(cluster.create(other).await.is_ok());
    assert!(cluster.create(config_map(&json!({}))).await.is_err());
}

#[tokio::test]
async fn scale_subresource_is_reviewed_as_scale() {
    let callee = FakeWebhookServer::new(|_, review| {
        answer(
            review,
            &patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 5}])),
        )
    })
    .await;
    let cluster = Cluster::new().await;
    cluster
        .configure(MUTATING, "c", &[(&callee, "/s", json!({}))])
        .await;
    let deployment = |replicas: u32| {
        json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "d", "namespace": "n"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}}})
    };
    let request = TestRequest {
        operation: Operation::Update,
        part: "scale",
        old: Some(deployment(1)),
        ..TestRequest::create(deployment(2))
    };
    let passed = cluster.pass(request).await.unwrap();
    assert_eq!(passed.object, deployment(5));
    let request = &callee.calls()[0]["request"];
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(request["subResource"], "scale");
    assert_eq!(
        [&request["object"]["spec"], &request["oldObject"]["spec"]],
        [&json!({"replicas": 2}), &json!({"replicas": 1})]
    );
}

#[tokio::test]
async fn uses_first_supported_review_version() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": true}))).await;
    for (versions, asked) in [
        (json!(["v9", "v1beta1", "v1"]), "admission.k8s.io/v1beta1"),
        (json!(["v1", "v1beta1"]), "admission.k8s.io/v1"),
    ] {
        let cluster = Cluster::new().await;
        let with = json!({"admissionReviewVersions": versions});
        cluster.configure(VALIDATING, "c", &[(&callee, "/v", with)]).await;
        cluster.create(config_map(&json!({}))).await.unwrap();
        assert_eq!(callee.calls().pop().unwrap()["apiVersion"], asked);
    }
    let cluster = Cluster::new().await;
    let with = json!({"admissionReviewVersions": ["v9"]});
    cluster.configure(VALIDATING, "c", &[(&callee, "/v", with)]).await;
    assert!(
        cluster
            .create(config_map(&json!({})))
            .await
            .unwrap_err()
            .ends_with("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
    );
}

#[tokio::test]
async fn match_conditions_skip_webhook() {
    let callee = FakeWebhookServer::new(|_, review| answer(review, &json!({"allowed": false}))).await;
    let denied = Some("admission webhook \"deny.example.com\" denied the request without explanation");
    let failed =
        Some("configmaps \"c\" is forbidden: expression 'object.x == 1' resulted in error: no such key: x");
    for (expressions, policy, why) in [
        (
            &["object.metadata.name == 'c'", "request.operation == 'CREATE'"][..],
            "Fail",
            denied,
        ),
        (&["object.metadata.name == 'c'", "false"], "Fail", None),
        (&["object.x == 1", "false"], "Fail", None),
        (&["object.x == 1", "true"], "Fail", failed),
        (&["object.x == 1", "true"], "Ignore", None),
    ] {
        let conditions: Vec<Value> = expressions
            .iter()
            .map(|expression| json!({"name": "c", "expression": expression}))
            .collect();
        let cluster = Cluster::new().await;
        let with = json!({"matchConditions": conditions, "failurePolicy": policy});
        cluster
            .configure(VALIDATING, "c", &[(&callee, "/deny", with)])
            .await;
        let said = cluster.create(config_map(&json!({}))).await.err();
        assert_eq!(said.as_deref(), why, "{expressions:?}");
    }
}

#[tokio::test]
async fn webhook_cannot_corrupt_managed_fields() {
    let callee = FakeWebhookServer::new(|_, review| {
        let operations = json!([{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "m", "operation": "Nonsense"}]}]);
        answer(review, &patch(&operations))
    })
    .await;
    let cluster = Cluster::new().await;
    cluster
        .configure(MUTATING, "c", &[(&callee, "/m", json!({}))])
        .await;
    let passed = cluster.create(config_map(&json!({}))).await.unwrap();
    assert!(!passed.object.at("metadata").has("managedFields"));
    assert!(
        passed.warnings[0].starts_with(".metadata.managedFields was in an invalid state after admission; "),
        "{:?}",
        passed.warnings
    );
}

#[tokio::test]
async fn equivalent_match_converts_custom_resource() {
    let callee = FakeWebhookServer::new(|_, review| {
        answer(
            review,
            &patch(&json!([{"op": "add", "path": "/spec/seen", "value": true}])),
        )
    })
    .await;
    let cluster = Cluster::new().await;
    cluster.world.put(widgets()).await;
    let with = json!({"rules": [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"],
        "resources": ["widgets"]}]});
    cluster.configure(MUTATING, "c", &[(&callee, "/w", with)]).await;
    let widget = json!({"kind": "Widget", "apiVersion": "example.com/v2", "metadata": {"name": "w", "namespace": "n"},
        "spec": {"size": 1}});
    let passed = cluster.create(widget).await.unwrap();
    assert_eq!(passed.object["apiVersion"], "example.com/v2");
    assert_eq!(passed.object["spec"], json!({"size": 1, "seen": true}));
    let request = &callee.calls()[0]["request"];
    assert_eq!(request["object"]["apiVersion"], "example.com/v1");
    assert_eq!(request["requestKind"]["version"], "v2");
}
