//! The custom resource `RedisMigration`.

use kube::CustomResource;
use kubecontroller::phase::PhaseStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source and destination of a migration.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "database.cloud.tencent.com",
    version = "v1",
    kind = "RedisMigration",
    namespaced,
    shortname = "rm",
    status = "RedisMigrationStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Source", "type": "string", "jsonPath": ".spec.source"}"#,
    printcolumn = r#"{"name": "Dest", "type": "string", "jsonPath": ".spec.dest"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct RedisMigrationSpec {
    /// The id of the source instance.
    #[serde(default)]
    pub source: String,
    /// The id of the destination instance.
    #[serde(default)]
    pub dest: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisMigrationStatus {
    /// The source instance, once it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_status: Option<InstanceStatus>,
    /// The destination instance, once it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_status: Option<InstanceStatus>,
    /// The state of the state machine.
    #[serde(flatten)]
    pub phases: PhaseStatus,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// The id, as in the spec.
    pub id: String,
    /// The display name.
    pub name: String,
}

kubecontroller::phased!(RedisMigration);
