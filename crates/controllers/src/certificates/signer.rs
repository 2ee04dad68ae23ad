//! Signs requests that were approved, in the name of the signers that clusters have.

use std::time::Duration;

use k3_api::kinds::CertificateRequestInfo;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
};
use serde_json::{Value, json};

use super::{
    request::SigningRequest,
    subject::{Refused, check},
};
use crate::{
    context::{CertificateOrder, CertificateSigner, ControllerContext, Task},
    patch_values::truncate_to_second,
    resource::CERTIFICATE_SIGNING_REQUESTS,
    writer::{ApiWriter, ObjectRef},
};

/// How long a certificate is valid that does not ask for less.
const LONGEST: Duration = Duration::from_hours(365 * 24);
const SHORTEST: Duration = Duration::from_mins(10);
/// Clocks differ: what was signed now holds for who is behind.
const BEFORE: Duration = Duration::from_mins(5);
/// Certificates that live shorter than this are not shortened by what they hold earlier.
const SHORT: Duration = Duration::from_hours(8);

struct Signer {
    writer: ApiWriter,
    clock: Clock,
    requests: Store<SigningRequest>,
    authority: CertificateSigner,
}

/// What is to be done about a request.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Leave,
    /// It cannot be signed, now or later.
    Fail(Refused),
    /// What is signed is what was checked.
    Sign(Box<CertificateOrder>),
}

/// What runs; nothing, if nobody can sign.
pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    match &context.cluster.certificates {
        Some(signer) => make_with(context, signer.clone()),
        None => Vec::new(),
    }
}

pub(super) fn make_with(context: &ControllerContext, signer: CertificateSigner) -> Vec<Task> {
    let requests = context.informer::<SigningRequest>(&CERTIFICATE_SIGNING_REQUESTS);
    let signer = Signer {
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

fn plan(request: &SigningRequest, now: Timestamp) -> Result<Plan, String> {
    let is_done = request.is_issued() || request.has_failed();
    if is_done || !request.is_approved() || request.is_denied() {
        return Ok(Plan::Leave);
    }
    let spec = &request.spec;
    let read = k3_api::kinds::parse_certificate_request(&spec.request)
        .map_err(|why| format!("unable to parse csr {:?}: {why}", request.metadata.name))?;
    Ok(
        match check(
            &spec.signer_name,
            &CertificateRequestInfo::from(&read),
            &spec.usages,
        ) {
            None => Plan::Leave,
            Some(Err(refused)) => Plan::Fail(refused),
            Some(Ok(())) => {
                let life = life(spec.expiration_seconds);
                let life_left = if life < SHORT {
                    life
                } else {
                    life.saturating_sub(BEFORE)
                };
                Plan::Sign(Box::new(CertificateOrder {
                    request: read,
                    usages: spec.usages.iter().map(ToString::to_string).collect(),
                    from: now - BEFORE,
                    to: now + life_left,
                }))
            }
        },
    )
}

fn life(asked: Option<i32>) -> Duration {
    let asked = asked.map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)));
    asked.map_or(LONGEST, |asked| asked.clamp(SHORTEST, LONGEST))
}

// --- Signer ---

impl Reconciler for Signer {
    async fn reconcile(&self, key: Request) -> Result<Outcome, Error> {
        let Some(request) = self.requests.get(&key.key) else {
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let status = match plan(&request, now).map_err(Error::permanent)? {
            Plan::Leave => return Ok(Outcome::Done),
            Plan::Fail(refused) => {
                let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                    "message": refused.to_string(), "lastUpdateTime": truncate_to_second(now)});
                let mut conditions = json!(request.status.conditions);
                if let Value::Array(conditions) = &mut conditions {
                    conditions.push(failed);
                }
                json!({"conditions": conditions})
            }
            Plan::Sign(order) => {
                let signed = self.authority.sign(&order);
                let signed =
                    signed.map_err(|why| Error::transient(format!("error auto signing csr: {why}")))?;
                json!({"certificate": k3_api::base64::encode(signed.as_bytes())})
            }
        };
        let meta = &request.metadata;
        let patch = json!({"metadata": {"resourceVersion": meta.resource_version}, "status": status});
        let object_ref = ObjectRef::new(&CERTIFICATE_SIGNING_REQUESTS, "", &meta.name);
        self.writer
            .update_with_merge::<Value>(object_ref.subresource("status"), &patch)
            .await?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_lives_as_long_as_was_asked_within_bounds() {
        for (asked, seconds) in [
            (None, 365 * 86400),
            (Some(1), 600),
            (Some(-1), 600),
            (Some(3600), 3600),
            (Some(i32::MAX), 365 * 86400),
        ] {
            assert_eq!(life(asked).as_secs(), seconds);
        }
    }
}
