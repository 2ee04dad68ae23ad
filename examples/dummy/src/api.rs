//! The kind `Dummy`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data, and how long to wait before it is copied.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "demo.wukong.com",
    version = "v1",
    kind = "Dummy",
    plural = "dummies",
    namespaced,
    status = "DummyStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct DummySpec {
    /// How many seconds to wait.
    #[serde(default)]
    pub transition_defer: u32,
    /// What to copy.
    #[serde(default)]
    pub data: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DummyStatus {
    /// What was copied last.
    pub data: String,
    /// The generation of the spec that is waited for, or was copied.
    pub observed_generation: i64,
    /// When the wait for it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
    /// Whether it was copied.
    pub copied: bool,
}
