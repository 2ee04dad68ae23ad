//! Patches of the conditions of nodes and pods.

use k3_workloads::ConditionStatus;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Map, Value, json};

/// The desired state of a condition.
#[derive(Clone, Debug)]
pub(crate) struct DesiredCondition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

// --- DesiredCondition ---

impl<'a> DesiredCondition<'a> {
    /// A condition with status `True`.
    pub(crate) fn new_true(kind: &'a str) -> Self {
        DesiredCondition {
            kind,
            holds: true,
            reason: "",
            message: "",
        }
    }

    /// A condition with status `False`.
    pub(crate) fn new_false(kind: &'a str) -> Self {
        DesiredCondition {
            holds: false,
            ..DesiredCondition::new_true(kind)
        }
    }

    pub(crate) fn with_reason(self, reason: &'a str, message: &'a str) -> Self {
        DesiredCondition {
            reason,
            message,
            ..self
        }
    }

    /// The strategic merge patch of the condition, which had the status `was` if it was reported. It sets `lastTransitionTime` only
    /// if the status changes.
    pub(crate) fn patch(&self, was: Option<ConditionStatus>, now: Timestamp) -> Map<String, Value> {
        let mut patch = Map::new();
        patch.insert("type".to_owned(), self.kind.into());
        let status = ConditionStatus::from(self.holds);
        patch.insert("status".to_owned(), status.as_str().into());
        for (name, text) in [("reason", self.reason), ("message", self.message)] {
            if !text.is_empty() {
                patch.insert(name.to_owned(), text.into());
            } else if was.is_some() {
                // Remove the text of the previous state.
                patch.insert(name.to_owned(), Value::Null);
            }
        }
        if was != Some(status) {
            patch.insert("lastTransitionTime".to_owned(), json!(Time(now)));
        }
        patch
    }
}
