//! Requests of those who join against an API in memory.

use std::time::Duration;

use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use kubecontroller::testing::{eventually, eventually_within};
use serde_json::{Value, json};

use super::{approver, cleaner, join::JOIN_USES_KEY, subject::KUBELET_CLIENT, tests::NODE};
use crate::{
    context::{ControllerContext, Task},
    resource::{CERTIFICATE_SIGNING_REQUESTS, NODES, SECRETS},
    testing::{Scenario, TestCluster},
};

/// Bootstrappers may ask for certificates of nodes.
fn make(context: &ControllerContext) -> Vec<Task> {
    approver::make_with(context, |review| {
        review["spec"]["resourceAttributes"]["subresource"] == "nodeclient"
    })
}

/// A request for the certificate of node `n` by the bearer of a token.
fn put_request(cluster: &TestCluster, name: &str, token: &str, status: &Value) {
    cluster.put(
        &CERTIFICATE_SIGNING_REQUESTS,
        json!({"metadata": {"name": name, "uid": format!("uid-{name}")}, "status": status, "spec": {
            "request": NODE, "signerName": KUBELET_CLIENT, "usages": ["digital signature", "client auth"],
            "username": format!("system:bootstrap:{token}"), "groups": ["system:bootstrappers", "system:authenticated"]}}),
    );
}

fn put_token(cluster: &TestCluster, id: &str, data: &[(&str, &str)]) {
    let data: serde_json::Map<String, Value> = data
        .iter()
        .map(|(key, value)| ((*key).to_owned(), k3_api::base64::encode(value.as_bytes()).into()))
        .collect();
    cluster.put(
        &SECRETS,
        json!({"metadata": {"name": format!("bootstrap-token-{id}"), "namespace": "kube-system"}, "data": data}),
    );
}

/// The type, the reason and the message of each condition of a request.
fn conditions(cluster: &TestCluster, name: &str) -> Vec<[String; 3]> {
    let request = cluster.api.get::<CertificateSigningRequest>("", name).unwrap();
    let conditions = request.status.and_then(|status| status.conditions);
    conditions
        .into_iter()
        .flatten()
        .map(|found| {
            [
                found.type_,
                found.reason.unwrap_or_default(),
                found.message.unwrap_or_default(),
            ]
        })
        .collect()
}

/// What becomes of a request.
async fn wait_for_decision(cluster: &TestCluster, name: &str) -> [String; 3] {
    eventually(async || conditions(cluster, name).pop()).await
}

async fn is_denied(cluster: &TestCluster, name: &str, reason: &str, word: &str) {
    let [kind, found, message] = wait_for_decision(cluster, name).await;
    assert_eq!((kind.as_str(), found.as_str()), ("Denied", reason), "{message}");
    assert!(message.contains(word), "{message}");
}

#[tokio::test(start_paused = true)]
async fn rejects_joining_as_an_existing_node() {
    let cluster = TestCluster::new();
    put_token(&cluster, "abcdef", &[]);
    cluster.put(&NODES, json!({"metadata": {"name": "n"}}));
    put_request(&cluster, "one", "abcdef", &json!({}));
    let _running = cluster.start("one", make);
    is_denied(&cluster, "one", "NodeExists", "node \"n\" exists").await;
}

#[tokio::test(start_paused = true)]
async fn reserves_a_name_once_a_certificate_is_issued() {
    let cluster = TestCluster::new();
    for id in ["abcdef", "abcdeg"] {
        put_token(&cluster, id, &[]);
    }
    put_request(&cluster, "one", "abcdef", &json!({}));
    let _running = cluster.start("one", make);
    assert_eq!(wait_for_decision(&cluster, "one").await[0], "Approved");
    put_request(&cluster, "two", "abcdeg", &json!({}));
    is_denied(&cluster, "two", "CertificateIssued", "kubectl delete csr one").await;
    // An administrator who deletes the request gives the name free.
    cluster.api.remove::<CertificateSigningRequest>("", "one");
    put_request(&cluster, "three", "abcdeg", &json!({}));
    assert_eq!(wait_for_decision(&cluster, "three").await[0], "Approved");
}

#[tokio::test(start_paused = true)]
async fn concurrent_joins_get_one_certificate() {
    let cluster = TestCluster::new();
    for number in 0..20 {
        let id = format!("abcd{number:02}");
        put_token(&cluster, &id, &[]);
        put_request(&cluster, &format!("r{number}"), &id, &json!({}));
    }
    let _running = cluster.start("one", make);
    let mut approved = 0;
    for number in 0..20 {
        approved += usize::from(wait_for_decision(&cluster, &format!("r{number}")).await[0] == "Approved");
    }
    assert_eq!(approved, 1);
}

#[tokio::test(start_paused = true)]
async fn enforces_token_limits() {
    for (data, reason, word) in [
        (
            &[("join-node-name", "m")][..],
            "NodeNameMismatch",
            "is for node \"m\"",
        ),
        (&[("join-use-limit", "0")], "TokenUsed", "limit"),
        (
            &[("join-use-limit", "2"), ("join-uses", "u-1=a,u-2=b")],
            "TokenUsed",
            "used 2 times",
        ),
        (
            &[("expiration", "2026-01-01T00:00:00Z")],
            "TokenExpired",
            "expired",
        ),
        (&[("join-use-limit", "many")], "InvalidToken", "invalid"),
        (&[("expiration", "soon")], "InvalidToken", "invalid"),
    ] {
        let cluster = TestCluster::new();
        put_token(&cluster, "abcdef", data);
        put_request(&cluster, "one", "abcdef", &json!({}));
        let _running = cluster.start("one", make);
        is_denied(&cluster, "one", reason, word).await;
    }
    let cluster = TestCluster::new();
    put_request(&cluster, "one", "revokd", &json!({}));
    put_request(&cluster, "two", "../../", &json!({}));
    let _running = cluster.start("one", make);
    is_denied(&cluster, "one", "TokenNotFound", "revoked").await;
    is_denied(&cluster, "two", "TokenNotFound", "revoked").await;
}

/// A token for one use and a name. Its use is counted once, whenever a copy of the controller ends.
const ONE_USE: Scenario = Scenario {
    make,
    setup: |cluster| {
        let data = [
            ("join-node-name", "n"),
            ("join-use-limit", "1"),
            ("expiration", "2027-01-01T00:00:00Z"),
        ];
        put_token(cluster, "abcdef", &data);
        put_request(cluster, "one", "abcdef", &json!({}));
    },
    play: |_| {},
    end: |cluster| {
        let [kind, reason, _] = conditions(cluster, "one").pop()?;
        let secret = cluster
            .api
            .get::<Secret>("kube-system", "bootstrap-token-abcdef")?;
        let uses = secret.data?.remove(JOIN_USES_KEY)?;
        Some(json!([kind, reason, String::from_utf8(uses.0).ok()?]))
    },
};

#[tokio::test(start_paused = true)]
async fn counts_each_token_use_once() {
    let (end, _) = ONE_USE.run().await;
    assert_eq!(end, json!(["Approved", "AutoApproved", "uid-one=n"]));
    ONE_USE.survives_crashes().await;
    ONE_USE.survives_copies().await;
}

/// A certificate that ends in the year 2126.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJ0akNDQVZ1Z0F3SUJBZ0lVTnRMbWlaNjZON1pvUUo2MFpBTUNpUkFrWHZZd0NnWUlLb1pJemowRUF3SXcKTHpFVk1CTUdBMVVFQ2d3TWMzbHpkR1Z0T201dlpHVnpNUll3RkFZRFZRUUREQTF6ZVhOMFpXMDZibTlrWlRwdQpNQ0FYRFRJMk1URXhPREV6TXpVME0xb1lEekl4TWpZeE1ESTFNVE16TlRReldqQXZNUlV3RXdZRFZRUUtEQXh6CmVYTjBaVzA2Ym05a1pYTXhGakFVQmdOVkJBTU1EWE41YzNSbGJUcHViMlJsT200d1dUQVRCZ2NxaGtqT1BRSUIKQmdncWhrak9QUU1CQndOQ0FBVGdoR3B4elQ0bHZsQSs1RkxMem9aZXo0K25IdUtEdzdGaUxSRk9PeExmeGl4agpMMzRxVkNhQmtwOXphdEtxcnd5b3JoTUZVSFRXazRpaFYzOU1RYWM5bzFNd1VUQWRCZ05WSFE0RUZnUVVYd0MvCk55ZWl4c3pYWHA5UWFTdmNoL0ZXTm0wd0h3WURWUjBqQkJnd0ZvQVVYd0MvTnllaXhzelhYcDlRYVN2Y2gvRlcKTm0wd0R3WURWUjBUQVFIL0JBVXdBd0VCL3pBS0JnZ3Foa2pPUFFRREFnTkpBREJHQWlFQTRmNDVsb09WekJ3VgpNR1hianV6TTZMVEgvQ2lwODhjVkNOK1RFRzNNRE9rQ0lRQ0t6ZWt6QjB6WEdBNXN6dHZiYnBjdTNzRTNKWXpVCktNZTRCb29DREc3VjFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=";

#[tokio::test(start_paused = true)]
async fn keeps_the_name_reserved_until_the_node_exists() {
    let cluster = TestCluster::new();
    let long_ago = json!([{"type": "Approved", "status": "True", "lastUpdateTime": "2025-12-01T00:00:00Z"}]);
    let status = json!({"conditions": long_ago, "certificate": CERTIFICATE});
    put_request(&cluster, "one", "abcdef", &status);
    cluster.put(
        &CERTIFICATE_SIGNING_REQUESTS,
        json!({"metadata": {"name": "other"}, "status": status, "spec": {
            "request": NODE, "signerName": KUBELET_CLIENT, "username": "system:node:n", "groups": ["system:nodes"]}}),
    );
    let _running = cluster.start("one", cleaner::make);
    let is_there = |name: &str| cluster.api.get::<CertificateSigningRequest>("", name).is_some();
    eventually(async || !is_there("other")).await;
    assert!(is_there("one"));
    cluster.put(&NODES, json!({"metadata": {"name": "n"}}));
    // It is looked again after an hour.
    eventually_within(Duration::from_hours(2), async || !is_there("one")).await;
}
