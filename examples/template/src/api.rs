//! The kind `Thing`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Thing",
    plural = "things",
    namespaced,
    status = "ThingStatus"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThingSpec {
    /// What the config map of the thing says.
    pub message: String,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ThingStatus {
    /// The generation of the spec that the config map shows.
    pub observed_generation: i64,
}
