//! The custom resource `At`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A command and the time at which to run it.
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
    /// The time in UTC, e.g. `2030-01-02T15:04:05Z`.
    pub schedule: String,
    /// The command and its arguments, separated by spaces.
    pub command: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AtStatus {
    /// The phase.
    pub phase: AtPhase,
    /// The error in the spec, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The phases of an `At`, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum AtPhase {
    /// Waiting for the scheduled time.
    #[default]
    Pending,
    /// Creating the pod.
    Running,
    /// The pod was created.
    Done,
}
