//! Deletes requests for certificates that are old: there is a new one for every kubelet, every few weeks.
//!
//! Promise: the request of a node that got a certificate with a join token is kept until that node exists, or its certificate
//! has ended: it is how the approver knows that the name is taken.

use std::time::Duration;

use k3_api::name::validate_dns1123_subdomain;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::controller::{Outcome, reconcile_fn};

use super::{
    join::{certificate_end, client_node, is_joining, node_exists},
    request::SigningRequest,
};
use crate::{
    context::{ControllerContext, Task},
    resource::CERTIFICATE_SIGNING_REQUESTS,
    writer::{ObjectRef, delete_options_for_uid},
};

/// How long a request is kept that was answered.
const ANSWERED: Duration = Duration::from_hours(1);
/// How long one is kept that was not.
const WAITING: Duration = Duration::from_hours(24);
/// A moment more than the time that a request has: it goes when that is over, not when it ends.
const MOMENT: Duration = Duration::from_millis(1);

/// What runs.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let (writer, store, clock) = (
        context.writer.clone(),
        requests.store().clone(),
        context.clock.clone(),
    );
    let runner = context
        .controller("certificatesigningrequest-cleaner-controller")
        .for_(&requests)
        .reconciler(reconcile_fn(move |key| {
            let (writer, request, now) = (writer.clone(), store.get(&key.key), clock.now());
            async move {
                let Some(request) = request else {
                    return Ok(Outcome::Done);
                };
                match end(&request) {
                    None => {}
                    Some(end) if now > end => {
                        if let Some(node) = reserved_node(&request, now)
                            && !node_exists(&writer, &node).await?
                        {
                            return Ok(Outcome::After(ANSWERED));
                        }
                        let meta = &request.metadata;
                        let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
                        writer
                            .delete(object_ref, &delete_options_for_uid(&meta.uid))
                            .await?;
                    }
                    Some(end) => {
                        let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                        return Ok(Outcome::After(left + MOMENT));
                    }
                }
                Ok(Outcome::Done)
            }
        }));
    vec![Box::new(runner)]
}

/// When a request has been kept for long enough.
fn end(request: &SigningRequest) -> Option<Timestamp> {
    let meta = &request.metadata;
    let after = |since: Option<Timestamp>, time: Duration| since.map(|since| since + time);
    let is_untouched = request.status.conditions.is_empty();
    let approved = request.since("Approved");
    let ends = [
        after(request.since("Denied"), ANSWERED),
        after(request.since("Failed"), ANSWERED),
        after(meta.creation_timestamp.filter(|_| is_untouched), WAITING),
        after(approved, if request.is_issued() { ANSWERED } else { WAITING }),
        certificate_end(request).filter(|_| request.is_approved()),
    ];
    ends.into_iter().flatten().min()
}

/// The node whose name a request keeps: it has a certificate that was got with a join token and is still valid.
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
    fn a_request_is_kept_for_a_while() {
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
            assert_eq!(end(&request), want, "{request:?}");
        }
    }
}
