//! The conditions of an object.

use std::hash::{Hash, Hasher};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{internable, status_values};

/// A condition. Unknown fields are kept, so that a list of conditions can be written back.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go Condition, ConditionStatus
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The type.
    #[serde(rename = "type")]
    pub kind: Box<str>,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// The reason.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    /// The message.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Box<str>,
    /// When the status changed.
    #[serde(
        skip_serializing_if = "Option::is_none",
        deserialize_with = "status_values::time"
    )]
    pub last_transition_time: Option<Timestamp>,
    /// Other fields.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// The status is unknown.
    #[default]
    #[serde(other)]
    Unknown,
}

// --- Condition ---

impl Condition {
    /// The condition of a type in a list.
    pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
        conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// Whether a condition is true.
    pub fn holds(conditions: &[Condition], kind: &str) -> bool {
        Condition::find(conditions, kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

// These fields distinguish conditions well enough.
impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Condition {
            kind,
            status,
            reason,
            message,
            last_transition_time,
            other: _,
        } = self;
        (kind, status, reason, message, last_transition_time).hash(state);
    }
}

internable!(Condition);

// --- ConditionStatus ---

impl ConditionStatus {
    /// The status as objects carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds {
            ConditionStatus::True
        } else {
            ConditionStatus::False
        }
    }
}
