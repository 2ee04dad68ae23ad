//! CertificateSigningRequests, as controllers read them.

use std::collections::BTreeMap;

use k3_pki::CertificateRequest;
use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::objects::Projection;

pub(super) type SigningRequest = Projection<RequestSpec, RequestStatus>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequestSpec {
    /// The PKCS#10 request in PEM, base64-encoded.
    pub(super) request: Box<str>,
    pub(super) signer_name: Box<str>,
    pub(super) usages: Vec<Box<str>>,
    /// Requested validity; the maximum if not set.
    pub(super) expiration_seconds: Option<i32>,
    pub(super) username: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) groups: Vec<Box<str>>,
    pub(super) extra: BTreeMap<Box<str>, Vec<Box<str>>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RequestStatus {
    pub(super) conditions: Vec<Condition>,
    /// The certificate in PEM, base64-encoded; empty if there is none.
    pub(super) certificate: Box<str>,
}

/// `spec.request` is not a certificate request.
#[derive(Debug, thiserror::Error)]
#[error("unable to parse csr {name:?}: {why}")]
pub(super) struct ParseRequestError {
    /// The name of the CertificateSigningRequest.
    name: Box<str>,
    why: String,
}

// --- SigningRequest ---

impl SigningRequest {
    /// The certificate request.
    pub(super) fn parse(&self) -> Result<CertificateRequest, ParseRequestError> {
        let parsed = k3_api::kinds::parse_certificate_request(&self.spec.request);
        parsed.map_err(|why| ParseRequestError {
            name: self.metadata.name.clone(),
            why: why.to_string(),
        })
    }

    pub(super) fn is_issued(&self) -> bool {
        !self.status.certificate.is_empty()
    }

    // upstream: pkg/controller/certificates/certificate_controller_utils.go IsCertificateRequestApproved, GetCertApprovalCondition
    pub(super) fn is_approved(&self) -> bool {
        self.has("Approved")
    }

    pub(super) fn is_denied(&self) -> bool {
        self.has("Denied")
    }

    /// Whether the signer marked it Failed.
    pub(super) fn has_failed(&self) -> bool {
        let failed = Condition::find(&self.status.conditions, "Failed");
        failed.is_some_and(|failed| failed.status == ConditionStatus::True)
    }

    /// Time of the last update of a condition.
    pub(super) fn since(&self, kind: &str) -> Option<Timestamp> {
        let condition = Condition::find(&self.status.conditions, kind)?;
        condition.other.get("lastUpdateTime")?.as_str()?.parse().ok()
    }

    /// Approval and denial cannot be reverted: the presence of the condition suffices.
    fn has(&self, kind: &str) -> bool {
        Condition::find(&self.status.conditions, kind).is_some()
    }
}
