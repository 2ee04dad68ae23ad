//! Approves CertificateSigningRequests (CSRs) of kubelets for client certificates, after a SubjectAccessReview. `join.rs` checks the
//! requests of joining nodes against the limits of their join token.

use k3_api::kinds::CertificateRequestInfo;
use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
    writer::{ApiWriter, ObjectRef},
};
use serde_json::{Value, json};

use super::{
    join::{JoinDenial, JoinPolicy},
    request::{ParseRequestError, SigningRequest},
    subject::{KUBELET_CLIENT, check_kubelet_client},
};
use crate::{
    context::{ControllerContext, Task},
    resource::{CERTIFICATE_SIGNING_REQUESTS, SUBJECT_ACCESS_REVIEWS},
    update::UpdateWithPatch,
};

/// The recognizers: the CSR subresource that the user must be allowed to create, and the message of the approval.
// upstream: pkg/controller/certificates/approver/sarapprove.go recognizers
const RECOGNIZERS: [(&str, &str); 2] = [
    (
        "selfnodeclient",
        "Auto approving self kubelet client certificate after SubjectAccessReview.",
    ),
    (
        "nodeclient",
        "Auto approving kubelet client certificate after SubjectAccessReview.",
    ),
];

// upstream: pkg/controller/certificates/approver/sarapprove.go sarApprover, handle
struct CertificateSigningRequestApprovingController {
    writer: ApiWriter,
    requests: Store<SigningRequest>,
    join_policy: JoinPolicy,
    /// Reads the decision from the status of a SubjectAccessReview.
    allows: fn(&Value) -> bool,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    make_with(context, |review| review["status"]["allowed"] == true)
}

pub(super) fn make_with(context: &ControllerContext, allows: fn(&Value) -> bool) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let approver = CertificateSigningRequestApprovingController {
        writer: context.writer.clone(),
        requests: requests.store().clone(),
        join_policy: JoinPolicy::new(
            context.writer.clone(),
            context.clock.clone(),
            requests.store().clone(),
        ),
        allows,
    };
    let runner = context
        .controller("certificatesigningrequest-approving-controller")
        .for_(&requests)
        .reconciler(approver);
    vec![Box::new(runner)]
}

/// The recognizers that a request matches. It is approved if the user has the permission of one of them.
// upstream: pkg/controller/certificates/approver/sarapprove.go isSelfNodeClientCert, isNodeClientCert
fn matching_recognizers(
    request: &SigningRequest,
) -> Result<&'static [(&'static str, &'static str)], ParseRequestError> {
    if &*request.spec.signer_name != KUBELET_CLIENT {
        return Ok(&[]);
    }
    let read = request.parse()?;
    let subject = CertificateRequestInfo::from(&read);
    if check_kubelet_client(&subject, &request.spec.usages).is_err() {
        return Ok(&[]);
    }
    let is_own = *request.spec.username == *subject.common_name;
    Ok(if is_own { &RECOGNIZERS } else { &RECOGNIZERS[1..] })
}

// --- CertificateSigningRequestApprovingController ---

impl Reconciler for CertificateSigningRequestApprovingController {
    async fn reconcile(&self, key: Request) -> Result<Outcome, Error> {
        let Some(request) = self.requests.get(&key.key) else {
            return Ok(Outcome::Done);
        };
        if request.is_issued() || request.is_approved() || request.is_denied() {
            return Ok(Outcome::Done);
        }
        let recognizers = matching_recognizers(&request).map_err(Error::permanent)?;
        for (subresource, message) in recognizers {
            if self.is_authorized(&request, subresource).await? {
                // The lock is held until the approval is written. Otherwise two requests for the same node could both be approved.
                let mut guard = self.join_policy.lock().await;
                match self.join_policy.decide(&request, &mut guard).await? {
                    Ok(()) => self.approve(&request, message).await?,
                    Err(denial) => self.deny(&request, &denial).await?,
                }
                return Ok(Outcome::Done);
            }
        }
        if recognizers.is_empty() {
            return Ok(Outcome::Done);
        }
        let tried: Vec<_> = recognizers.iter().map(|(subresource, _)| *subresource).collect();
        let name = &request.metadata.name;
        let tried = tried.join(" ");
        // Transient: the role may be created later.
        Err(Error::transient(format!(
            "recognized csr {name:?} as [{tried}] but subject access review was not approved"
        )))
    }
}

impl CertificateSigningRequestApprovingController {
    /// Whether the user may request such a certificate (SubjectAccessReview).
    // upstream: pkg/controller/certificates/approver/sarapprove.go authorize
    async fn is_authorized(&self, request: &SigningRequest, subresource: &str) -> kube::Result<bool> {
        let spec = &request.spec;
        let resource_attributes = json!({"group": "certificates.k8s.io", "resource": "certificatesigningrequests", "verb": "create",
            "subresource": subresource, "version": "*"});
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": spec.username, "uid": spec.uid, "groups": spec.groups, "extra": spec.extra,
            "resourceAttributes": resource_attributes}});
        let review = self
            .writer
            .create::<Value>(&SUBJECT_ACCESS_REVIEWS, "", &review)
            .await?;
        Ok((self.allows)(&review))
    }

    // upstream: pkg/controller/certificates/approver/sarapprove.go appendApprovalCondition
    async fn approve(&self, request: &SigningRequest, message: &str) -> kube::Result<()> {
        let approved =
            json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
        self.add_condition(request, approved).await
    }

    async fn deny(&self, request: &SigningRequest, denial: &JoinDenial) -> kube::Result<()> {
        tracing::warn!(
            request = %request.metadata.name,
            user = %request.spec.username,
            reason = denial.reason,
            message = denial.message,
            "denied join request"
        );
        let denied =
            json!({"type": "Denied", "status": "True", "reason": denial.reason, "message": denial.message});
        self.add_condition(request, denied).await
    }

    async fn add_condition(&self, request: &SigningRequest, condition: Value) -> kube::Result<()> {
        let mut conditions = json!(request.status.conditions);
        if let Value::Array(conditions) = &mut conditions {
            conditions.push(condition);
        }
        let meta = &request.metadata;
        let patch = json!({
            "metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        });
        let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
        self.writer
            .update_with_merge::<Value>(object_ref.subresource("approval"), &patch)
            .await?;
        Ok(())
    }
}
