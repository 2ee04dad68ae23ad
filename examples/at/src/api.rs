//! The kind `At`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command, and the time to run it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "demo.wukong.com",
    version = "v1",
    kind = "At",
    namespaced,
    status = "AtStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AtSpec {
    /// When, in UTC: `2030-01-02T15:04:05Z`.
    pub schedule: String,
    /// What: words, split at spaces.
    pub command: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AtStatus {
    /// The phase.
    pub phase: AtPhase,
    /// What is wrong; empty if nothing is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phases, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AtPhase {
    /// It is not yet time.
    #[default]
    Pending,
    /// It is time; the pod is made.
    Running,
    /// The pod was made.
    Done,
}
