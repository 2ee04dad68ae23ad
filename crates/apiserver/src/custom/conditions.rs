//! Conditions of CustomResourceDefinitions.

use k3_api::{
    strategy::{Tree, TreeMut},
    time::Time,
};
use serde_json::{Value, json};

/// A condition: what it is about, whether it holds, why, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DefinitionCondition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: String,
    pub message: String,
}

/// Whether a condition holds.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/helpers.go IsCRDConditionTrue
pub(super) fn is_true(crd: &Value, kind: &str) -> bool {
    find(crd, kind).is_some_and(|condition| condition.text("status") == "True")
}

/// A condition as it is.
pub(super) fn find<'c>(crd: &'c Value, kind: &str) -> Option<&'c Value> {
    let conditions = crd.at("status").items("conditions");
    conditions.iter().find(|condition| condition.text("type") == kind)
}

// --- DefinitionCondition ---

impl DefinitionCondition {
    /// A condition that holds.
    pub(super) fn met(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(kind, "True", reason, message)
    }

    /// A condition that does not hold.
    pub(super) fn unmet(kind: &'static str, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(kind, "False", reason, message)
    }

    fn new(
        kind: &'static str,
        status: &'static str,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        DefinitionCondition {
            kind,
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// Sets the condition. The transition time changes only with the status.
    // upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/helpers.go SetCRDCondition
    pub(super) fn set(&self, crd: &mut Value, now: Time) {
        let mut condition = json!({
            "type": self.kind,
            "status": self.status,
            "lastTransitionTime": now.truncated().to_string(),
            "reason": self.reason,
            "message": self.message,
        });
        let status = crd.ensure_object("status");
        let mut conditions = status.items("conditions").to_vec();
        match conditions
            .iter_mut()
            .find(|condition| condition.text("type") == self.kind)
        {
            Some(old) => {
                if old.text("status") == self.status {
                    condition.copy_from("lastTransitionTime", old);
                }
                *old = condition;
            }
            None => conditions.push(condition),
        }
        status.set("conditions", conditions);
    }
}
