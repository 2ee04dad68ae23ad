//! Requests for certificates, as controllers see them.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use crate::objects::{Condition, ConditionStatus, Projection};

/// A request for a certificate.
pub(super) type SigningRequest = Projection<RequestSpec, RequestStatus>;

/// What is asked for, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequestSpec {
    /// The request, in PEM, in base64.
    pub(super) request: Box<str>,
    /// Who is to sign.
    pub(super) signer_name: Box<str>,
    /// What the certificate is to be used for.
    pub(super) usages: Vec<Box<str>>,
    /// How long it is to be valid; as long as it can be, if it is not said.
    pub(super) expiration_seconds: Option<i32>,
    /// Who asks.
    pub(super) username: Box<str>,
    /// The uid of who asks.
    pub(super) uid: Box<str>,
    /// The groups of who asks.
    pub(super) groups: Vec<Box<str>>,
    /// What else is known of who asks.
    pub(super) extra: BTreeMap<Box<str>, Vec<Box<str>>>,
}

/// What has become of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RequestStatus {
    /// The conditions.
    pub(super) conditions: Vec<Condition>,
    /// The certificate, in PEM, in base64; empty if there is none.
    pub(super) certificate: Box<str>,
}

// --- SigningRequest ---

impl SigningRequest {
    /// Whether it has a certificate.
    pub(super) fn is_issued(&self) -> bool {
        !self.status.certificate.is_empty()
    }

    /// Whether somebody said yes.
    pub(super) fn is_approved(&self) -> bool {
        self.has("Approved")
    }

    /// Whether somebody said no.
    pub(super) fn is_denied(&self) -> bool {
        self.has("Denied")
    }

    /// Whether its signer has found that it cannot be signed.
    pub(super) fn has_failed(&self) -> bool {
        let failed = Condition::find(&self.status.conditions, "Failed");
        failed.is_some_and(|failed| failed.status == ConditionStatus::True)
    }

    /// When a condition was last changed, if there is one.
    pub(super) fn since(&self, kind: &str) -> Option<Timestamp> {
        let condition = Condition::find(&self.status.conditions, kind)?;
        condition.other.get("lastUpdateTime")?.as_str()?.parse().ok()
    }

    /// Approval and denial cannot be taken back: that they are there is enough.
    fn has(&self, kind: &str) -> bool {
        Condition::find(&self.status.conditions, kind).is_some()
    }
}
