//! The kind `RedisMigration`.

use kube::CustomResource;
use kubecontroller::phase::PhaseStatus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From where to where.
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
    /// The instance that is copied.
    #[serde(default)]
    pub source: String,
    /// The instance that it is copied to.
    #[serde(default)]
    pub dest: String,
}

/// What is known of both ends, and how far the machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisMigrationStatus {
    /// The source, once it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_status: Option<InstanceStatus>,
    /// The destination, once it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_status: Option<InstanceStatus>,
    /// The machine's part.
    #[serde(flatten)]
    pub phases: PhaseStatus,
}

/// What is known of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Its id, as the spec names it.
    pub id: String,
    /// Its name.
    pub name: String,
}

kubecontroller::phased!(RedisMigration);
