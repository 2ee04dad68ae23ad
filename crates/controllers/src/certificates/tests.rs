//! Requests for certificates against an API in memory.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::{approver, cleaner, signer};
use crate::{
    context::{CertificateSigner, ControllerContext, Task},
    resource::CERTIFICATE_SIGNING_REQUESTS,
    testing::{Scenario, TestCluster},
};

/// For the node `n`, and for another user.
pub(super) const NODE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIcE1JR1JBZ0VBTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekVXTUJRR0ExVUVBd3dOYzNsegpkR1Z0T201dlpHVTZiakJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCS3JmVmZRWUxNbUZmV2ZhCnhwRnRNSE5yenNkbXowVDZMZEpMd0xLOWFvQnZZK0t5SXkxSFk0bEhCQkFxd3pySC9MZE0wTTBMREhwWjBtTy8KcEhMVU5SK2dBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUJmemEzSEdNL2RkWFNoYkMzdFpUSzVmeHFKUyt3VgpLQWJMTUozL2w2dkNZUUlnSHRLaHkzMGhvWDJ1Q0NXMDhVSjlnbmpyeTdDNkRna3lYek82WnpFaGR1QT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
const JANE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWU1IOENBUUF3SFRFTU1Bb0dBMVVFQ2d3RFpHVjJNUTB3Q3dZRFZRUUREQVJxWVc1bE1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVxdDlWOUJnc3lZVjlaOXJHa1cwd2Mydk94MmJQUlBvdDBrdkFzcjFxCmdHOWo0cklqTFVkamlVY0VFQ3JET3NmOHQwelF6UXNNZWxuU1k3K2tjdFExSDZBQU1Bb0dDQ3FHU000OUJBTUMKQTBrQU1FWUNJUUNXd3pLS2Jzc2JkZHRLdlBxTnhXYTlLaU9SdkYxMGY3ZHplanNqMHpjbmd3SWhBTlA3RGxHdgp2UEFYZHFLR0FBdnRISjhGamZFMHluTUxrdXdPaGNFZ21BVVEKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// For the node `n`, and, behind a length that is not the shortest one, for `system:masters`.
const HIDDEN_GROUP: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQkJUQ0JyQUlCQURCS01SVXdFd1lEVlFRS0RBeHplWE4wWlcwNmJtOWtaWE14RmpBVUJnTlZCQU1NRFhONQpjM1JsYlRwdWIyUmxPbTR4R1RBWEJnTlZCQW9NZ2dBT2MzbHpkR1Z0T20xaGMzUmxjbk13V1RBVEJnY3Foa2pPClBRSUJCZ2dxaGtqT1BRTUJCd05DQUFRTVluNEV4OEpDN0lqaVhEMEVsMEVMYXV1Ulh6UGQ2M3ZEUFNWK201VTcKQ2hLOVJsRVN2SHMvU2NhdVRwOTZiV1dxSlZIUHVzQWt5WGNEQTc5S1VZSmpvQUF3Q2dZSUtvWkl6ajBFQXdJRApTQUF3UlFJaEFOTzc4KzlDblorZm5Sb1Uyb0lUR3dtRUV6c2IwNTN1S0QvaXNVY01vQzh2QWlCcGQ0STMwNGNaCnVXYUVCT0NLdzYvWlFnMU1vRnBXQjU0NHM1ZXhFbGgyMEE9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

fn make(context: &ControllerContext) -> Vec<Task> {
    let mut tasks = approver::make_with(context, |review| {
        let spec = &review["spec"];
        let right = &spec["resourceAttributes"];
        spec["user"] == "system:node:n" && right["subresource"] == "selfnodeclient"
    });
    let signer = CertificateSigner::new(|order| {
        let user = &order.request.identity().common_name;
        Ok(format!("for {user} {} {}", order.from, order.usages.join(",")))
    });
    tasks.extend(signer::make_with(context, signer));
    tasks.extend(cleaner::make(context));
    tasks
}

fn put(
    cluster: &TestCluster,
    name: &str,
    user: &str,
    request: &str,
    signer: &str,
    usages: &[&str],
    conditions: &Value,
) {
    cluster.put(
        &CERTIFICATE_SIGNING_REQUESTS,
        json!({"metadata": {"name": name}, "status": {"conditions": conditions}, "spec": {"request": request,
            "signerName": signer, "usages": usages, "username": user}}),
    );
}

/// A node asks for its certificate, another user for that of the node, others for one that was approved and for one
/// that cannot be signed, and one was denied long ago. Two hide a group behind what lax readers stop at.
const STORY: Scenario = Scenario {
    make,
    setup: |cluster| {
        let client = ["digital signature", "client auth"];
        let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
        let yes = json!([{"type": "Approved", "status": "True", "lastUpdateTime": "2026-01-01T00:00:00Z"}]);
        let no = json!([{"type": "Denied", "status": "True", "lastUpdateTime": "2025-12-31T23:00:59Z"}]);
        put(
            cluster,
            "node",
            "system:node:n",
            NODE,
            kubelet,
            &client,
            &json!([]),
        );
        put(
            cluster,
            "hidden",
            "system:node:n",
            HIDDEN_GROUP,
            kubelet,
            &client,
            &json!([]),
        );
        put(cluster, "signed", "jane", HIDDEN_GROUP, kubelet, &client, &yes);
        put(
            cluster,
            "other",
            "system:node:m",
            NODE,
            kubelet,
            &client,
            &json!([]),
        );
        let user = "kubernetes.io/kube-apiserver-client";
        put(cluster, "jane", "jane", JANE, user, &client, &yes);
        put(cluster, "wrong", "jane", JANE, kubelet, &client, &yes);
        put(
            cluster,
            "foreign",
            "jane",
            JANE,
            "example.com/mine",
            &client,
            &yes,
        );
        put(cluster, "denied", "jane", JANE, user, &client, &no);
    },
    play: |_| {},
    end: |cluster| {
        let requests = cluster.api.list::<CertificateSigningRequest>().into_iter();
        let requests = requests.map(|request| {
            let status = request.status.unwrap_or_default();
            let conditions = status.conditions.unwrap_or_default().into_iter();
            let reported: Vec<_> = conditions
                .map(|reported| (reported.type_, reported.reason, reported.message))
                .collect();
            let signed = status
                .certificate
                .map(|bytes| String::from_utf8(bytes.0).unwrap());
            let signed =
                signed.filter(|signed| signed.starts_with("for ") && signed.contains(" 2025-12-31T23:5"));
            let usages = signed
                .as_deref()
                .and_then(|signed| signed.split_once("Z "))
                .map(|(_, usages)| usages.to_owned());
            json!([request.metadata.name, reported, usages])
        });
        let requests: Vec<_> = requests.collect();
        let is_late = cluster.now().as_second() > 1_767_225_630 + 100;
        is_late.then(|| requests.into())
    },
};

#[tokio::test(start_paused = true)]
async fn approves_signs_and_deletes_requests() {
    let (end, _) = STORY.run().await;
    let approved = "Auto approving self kubelet client certificate after SubjectAccessReview.";
    let usages = "digital signature,client auth";
    let yes = json!(["Approved", null, null]);
    let failed = json!([
        "Failed",
        "SignerValidationFailure",
        "subject organization is not system:nodes"
    ]);
    assert_eq!(
        end,
        json!([
            ["foreign", [yes], null],
            ["hidden", [], null],
            ["jane", [yes], usages],
            ["node", [["Approved", "AutoApproved", approved]], usages],
            ["other", [], null],
            ["signed", [yes], null],
            ["wrong", [yes, failed], null],
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn approves_and_signs_despite_crashes() {
    STORY.survives_crashes().await;
    STORY.survives_copies().await;
}
