//! The custom resource `Dummy`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Data, and the delay after which it is copied to the status.
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
    /// The delay in seconds.
    #[serde(default)]
    pub transition_defer: u32,
    /// The data to copy.
    #[serde(default)]
    pub data: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DummyStatus {
    /// The data that was copied last.
    pub data: String,
    /// The generation of the spec that is being delayed or was copied.
    pub observed_generation: i64,
    /// When the delay started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
    /// Whether the data was copied.
    pub copied: bool,
}
