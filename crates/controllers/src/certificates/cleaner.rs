//! Deletes old CertificateSigningRequests: every kubelet creates a new one every few weeks.
//!
//! Invariant: the request of a node that joined with a token is kept until the Node exists, or its certificate has expired: the
//! approver uses it to know that the name is taken.

use std::time::Duration;

use k3_api::name::validate_dns1123_subdomain;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
    writer::{ApiWriter, ObjectRef, delete_options_for_uid},
};

use super::{
    join::{certificate_end, client_node, is_joining, node_exists},
    request::SigningRequest,
};
use crate::{
    context::{ControllerContext, Task},
    resource::CERTIFICATE_SIGNING_REQUESTS,
};

/// Retention of approved, denied and failed requests.
const DECIDED_RETENTION: Duration = Duration::from_hours(1);
/// Retention of pending requests.
const PENDING_RETENTION: Duration = Duration::from_hours(24);
/// Added to the requeue delay, so that a request is deleted after its retention time, not at it.
const RETENTION_MARGIN: Duration = Duration::from_millis(1);

// upstream: pkg/controller/certificates/cleaner/cleaner.go CSRCleanerController, handle
struct CertificateSigningRequestCleanerController {
    writer: ApiWriter,
    store: Store<SigningRequest>,
    clock: Clock,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let writer = context.writer.clone();
    let store = requests.store().clone();
    let clock = context.clock.clone();
    let runner = context
        .controller("certificatesigningrequest-cleaner-controller")
        .for_(&requests)
        .reconciler(CertificateSigningRequestCleanerController { writer, store, clock });
    vec![Box::new(runner)]
}

impl Reconciler for CertificateSigningRequestCleanerController {
    async fn reconcile(&self, key: Request) -> Result<Outcome, Error> {
        let CertificateSigningRequestCleanerController { writer, store, clock } = self;
        let request = store.get(&key.key);
        let now = clock.now();
        let Some(request) = request else {
            return Ok(Outcome::Done);
        };
        match retention_end(&request) {
            None => {}
            Some(end) if now > end => {
                if let Some(node) = reserved_node(&request, now)
                    && !node_exists(writer, &node).await?
                {
                    return Ok(Outcome::RequeueAfter(DECIDED_RETENTION));
                }
                let meta = &request.metadata;
                let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
                writer
                    .delete(object_ref, &delete_options_for_uid(&meta.uid))
                    .await?;
            }
            Some(end) => {
                let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                return Ok(Outcome::RequeueAfter(left + RETENTION_MARGIN));
            }
        }
        Ok(Outcome::Done)
    }
}

/// When the retention time of a request ends.
// upstream: pkg/controller/certificates/cleaner/cleaner.go handle, isIssuedPastDeadline, isDeniedPastDeadline, isFailedPastDeadline, isPendingPastDeadline
fn retention_end(request: &SigningRequest) -> Option<Timestamp> {
    let meta = &request.metadata;
    let after = |since: Option<Timestamp>, time: Duration| since.map(|since| since + time);
    let is_untouched = request.status.conditions.is_empty();
    let approved = request.since("Approved");
    let ends = [
        after(request.since("Denied"), DECIDED_RETENTION),
        after(request.since("Failed"), DECIDED_RETENTION),
        after(
            meta.creation_timestamp.filter(|_| is_untouched),
            PENDING_RETENTION,
        ),
        after(
            approved,
            if request.is_issued() {
                DECIDED_RETENTION
            } else {
                PENDING_RETENTION
            },
        ),
        certificate_end(request).filter(|_| request.is_approved()),
    ];
    ends.into_iter().flatten().min()
}

/// The node whose name a request reserves: it has a valid certificate issued with a join token.
fn reserved_node(request: &SigningRequest, now: Timestamp) -> Option<String> {
    let is_valid = certificate_end(request).is_some_and(|end| end > now);
    let node = client_node(request)?;
    let is_name = validate_dns1123_subdomain(&node).is_empty();
    (is_valid && is_name && is_joining(request)).then_some(node)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn computes_retention_end() {
        let since =
            |kind: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": "2026-01-01T10:00:00Z"}]);
        for (conditions, certificate, want) in [
            (json!([]), "", Some("2026-01-02T00:00:00Z")),
            (since("Approved"), "", Some("2026-01-02T10:00:00Z")),
            (since("Approved"), "eA==", Some("2026-01-01T11:00:00Z")),
            (since("Denied"), "", Some("2026-01-01T11:00:00Z")),
            (since("Failed"), "", Some("2026-01-01T11:00:00Z")),
            (since("Other"), "", None),
        ] {
            let status = json!({"conditions": conditions, "certificate": certificate});
            let whole: Value =
                json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status});
            let request: SigningRequest = serde_json::from_value(whole).unwrap();
            let want = want.map(|end| end.parse::<Timestamp>().unwrap());
            assert_eq!(retention_end(&request), want, "{request:?}");
        }
    }
}
