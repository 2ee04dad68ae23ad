//! Signs approved CertificateSigningRequests for the built-in signers.

use std::time::Duration;

use k3_api::kinds::CertificateRequestInfo;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
    writer::{ApiWriter, ObjectRef},
};
use serde_json::{Value, json};

use super::{
    request::{ParseRequestError, SigningRequest},
    subject::{SubjectError, check_subject},
};
use crate::{
    context::{CertificateOrder, CertificateSigner, ControllerContext, Task},
    patch_values::truncate_to_second,
    resource::CERTIFICATE_SIGNING_REQUESTS,
};

/// Maximum validity.
const MAX_VALIDITY: Duration = Duration::from_hours(365 * 24);
const MIN_VALIDITY: Duration = Duration::from_mins(10);
/// Backdating for clock skew.
const BACKDATE: Duration = Duration::from_mins(5);
/// Certificates shorter than this are not shortened by the backdating.
const SHORT_LIVED: Duration = Duration::from_hours(8);

// upstream: pkg/controller/certificates/signer/signer.go CSRSigningController, handle
struct CertificateSigningRequestSigningController {
    writer: ApiWriter,
    clock: Clock,
    requests: Store<SigningRequest>,
    authority: CertificateSigner,
}

/// What to do about a request.
#[derive(Debug, PartialEq, Eq)]
enum SigningDecision {
    Ignore,
    /// It can never be signed: condition Failed.
    Fail(SubjectError),
    /// Exactly what was checked is signed.
    Sign(Box<CertificateOrder>),
}

/// No controller without a signing key.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    match &context.cluster.certificates {
        Some(signer) => make_with(context, signer.clone()),
        None => Vec::new(),
    }
}

pub(super) fn make_with(context: &ControllerContext, signer: CertificateSigner) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let signer = CertificateSigningRequestSigningController {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        requests: requests.store().clone(),
        authority: signer,
    };
    let runner = context
        .controller("certificatesigningrequest-signing-controller")
        .for_(&requests)
        .reconciler(signer);
    vec![Box::new(runner)]
}

// upstream: pkg/controller/certificates/signer/signer.go handle
fn decide(request: &SigningRequest, now: Timestamp) -> Result<SigningDecision, ParseRequestError> {
    let is_done = request.is_issued() || request.has_failed();
    if is_done || !request.is_approved() || request.is_denied() {
        return Ok(SigningDecision::Ignore);
    }
    let spec = &request.spec;
    let read = request.parse()?;
    Ok(
        match check_subject(
            &spec.signer_name,
            &CertificateRequestInfo::from(&read),
            &spec.usages,
        ) {
            None => SigningDecision::Ignore,
            Some(Err(error)) => SigningDecision::Fail(error),
            Some(Ok(())) => {
                let life = validity(spec.expiration_seconds);
                let life_left = if life < SHORT_LIVED {
                    life
                } else {
                    life.saturating_sub(BACKDATE)
                };
                SigningDecision::Sign(Box::new(CertificateOrder {
                    request: read,
                    usages: spec.usages.iter().map(ToString::to_string).collect(),
                    from: now - BACKDATE,
                    to: now + life_left,
                }))
            }
        },
    )
}

// upstream: pkg/controller/certificates/signer/signer.go duration
fn validity(asked: Option<i32>) -> Duration {
    let asked = asked.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)));
    asked.map_or(MAX_VALIDITY, |asked| asked.clamp(MIN_VALIDITY, MAX_VALIDITY))
}

// --- CertificateSigningRequestSigningController ---

impl Reconciler for CertificateSigningRequestSigningController {
    async fn reconcile(&self, key: Request) -> Result<Outcome, Error> {
        let Some(request) = self.requests.get(&key.key) else {
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let status = match decide(&request, now).map_err(Error::permanent)? {
            SigningDecision::Ignore => return Ok(Outcome::Done),
            SigningDecision::Fail(error) => {
                let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                    "message": error.to_string(), "lastUpdateTime": truncate_to_second(now)});
                let mut conditions = json!(request.status.conditions);
                if let Value::Array(conditions) = &mut conditions {
                    conditions.push(failed);
                }
                json!({"conditions": conditions})
            }
            SigningDecision::Sign(order) => {
                let signed = self.authority.sign(&order);
                let signed =
                    signed.map_err(|error| Error::transient(format!("error auto signing csr: {error}")))?;
                json!({"certificate": k3_api::base64::encode(signed.as_bytes())})
            }
        };
        let meta = &request.metadata;
        let patch = json!({"metadata": {"resourceVersion": meta.resource_version}, "status": status});
        let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
        self.writer
            .merge_patch::<Value>(object_ref.subresource("status"), &patch)
            .await?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_requested_validity() {
        for (asked, seconds) in [
            (None, 365 * 86400),
            (Some(1), 600),
            (Some(-1), 600),
            (Some(3600), 3600),
            (Some(i32::MAX), 365 * 86400),
        ] {
            assert_eq!(validity(asked).as_secs(), seconds);
        }
    }
}
