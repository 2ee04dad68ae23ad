//! Conditions of nodes and pods: observed states and patches.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A condition in the API's format.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ConditionFields {
    #[serde(rename = "type")]
    pub(crate) kind: Box<str>,
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) last_heartbeat_time: Option<Timestamp>,
}

/// The observed states of conditions, in the order of a list of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConditionStates([ConditionState; 5]);

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConditionState {
    /// Not reported.
    #[default]
    Absent,
    True,
    False,
    Unknown,
}

/// The desired state of a condition.
#[derive(Clone, Debug)]
pub(crate) struct DesiredCondition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

// --- ConditionStates ---

impl ConditionStates {
    /// Records a condition. Returns false if its type is not in `types`.
    pub(crate) fn record(&mut self, types: &[&str], read: &ConditionFields) -> bool {
        let index = types.iter().position(|kind| **kind == *read.kind);
        let Some(known) = index.and_then(|index| self.0.get_mut(index)) else {
            return false;
        };
        *known = match &*read.status {
            "True" => ConditionState::True,
            "False" => ConditionState::False,
            _ => ConditionState::Unknown,
        };
        true
    }

    pub(crate) fn get(self, types: &[&str], kind: &str) -> ConditionState {
        let index = types.iter().position(|known| *known == kind);
        let known = index.and_then(|index| self.0.get(index));
        known.copied().unwrap_or_default()
    }
}

// --- ConditionState ---

impl From<bool> for ConditionState {
    fn from(holds: bool) -> Self {
        if holds {
            ConditionState::True
        } else {
            ConditionState::False
        }
    }
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

    /// The strategic merge patch of the condition. It sets `lastTransitionTime` only if the status changes.
    pub(crate) fn patch(&self, was: ConditionState, now: Timestamp) -> Map<String, Value> {
        let mut patch = Map::new();
        patch.insert("type".to_owned(), self.kind.into());
        let status = if self.holds { "True" } else { "False" };
        patch.insert("status".to_owned(), status.into());
        for (name, text) in [("reason", self.reason), ("message", self.message)] {
            if !text.is_empty() {
                patch.insert(name.to_owned(), text.into());
            } else if was != ConditionState::Absent {
                // Remove the text of the previous state.
                patch.insert(name.to_owned(), Value::Null);
            }
        }
        if was != ConditionState::from(self.holds) {
            patch.insert("lastTransitionTime".to_owned(), json!(Time(now)));
        }
        patch
    }
}
