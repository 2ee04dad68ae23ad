//! `failurePolicy` of webhooks and policies: what an error of theirs does to the request.

use k3_api::strategy::Tree;
use serde_json::Value;

/// What an error does to the request.
// upstream: staging/src/k8s.io/api/admissionregistration/v1/types.go FailurePolicyType
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// It is refused.
    Fail,
    /// It continues, as if there were no such webhook or policy.
    Ignore,
}

// --- FailurePolicy ---

impl FailurePolicy {
    /// The policy of a webhook, or of the `spec` of a policy. What is missing or unknown does not open the door.
    pub(super) fn read(tree: &Value) -> Self {
        match tree.text("failurePolicy") {
            "Ignore" => FailurePolicy::Ignore,
            _ => FailurePolicy::Fail,
        }
    }
}
