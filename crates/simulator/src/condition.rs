//! Conditions: what is known of them, and how they are written.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A condition as it is read.
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

/// Whether conditions of some types hold, in the order of the types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConditionStates([ConditionState; 5]);

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ConditionState {
    /// Not reported.
    #[default]
    Absent,
    True,
    False,
    Unknown,
}

/// A condition as it is to be.
#[derive(Clone, Debug)]
pub(crate) struct DesiredCondition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) holds: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

// --- ConditionStates ---

impl ConditionStates {
    /// Takes in what was read. Returns whether it is of one of the types.
    pub(crate) fn learn(&mut self, types: &[&str], read: &ConditionFields) -> bool {
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
    /// One that holds.
    pub(crate) fn holds(kind: &'a str) -> Self {
        DesiredCondition {
            kind,
            holds: true,
            reason: "",
            message: "",
        }
    }

    /// One that does not.
    pub(crate) fn fails(kind: &'a str) -> Self {
        DesiredCondition {
            holds: false,
            ..DesiredCondition::holds(kind)
        }
    }

    /// With words about why.
    pub(crate) fn because(self, reason: &'a str, message: &'a str) -> Self {
        DesiredCondition {
            reason,
            message,
            ..self
        }
    }

    /// As a strategic patch writes it. When it changed is said only if it changes.
    pub(crate) fn patch(&self, was: ConditionState, now: Timestamp) -> Map<String, Value> {
        let mut patch = Map::new();
        patch.insert("type".to_owned(), self.kind.into());
        let status = if self.holds { "True" } else { "False" };
        patch.insert("status".to_owned(), status.into());
        for (name, text) in [("reason", self.reason), ("message", self.message)] {
            if !text.is_empty() {
                patch.insert(name.to_owned(), text.into());
            } else if was != ConditionState::Absent {
                // What was said before does not hold any more.
                patch.insert(name.to_owned(), Value::Null);
            }
        }
        if was != ConditionState::from(self.holds) {
            patch.insert("lastTransitionTime".to_owned(), json!(Time(now)));
        }
        patch
    }
}
