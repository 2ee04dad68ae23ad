//! What a node tells of itself and its pods: as much of `/stats/summary` as is shown.

use serde::Deserialize;

/// What a node tells.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Summary {
    #[serde(default)]
    pub node: Used,
    #[serde(default)]
    pub pods: Vec<PodUsed>,
}

/// What a pod uses.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodUsed {
    pub pod_ref: PodRef,
    #[serde(default)]
    pub containers: Vec<ContainerUsed>,
}

/// Which pod it is.
#[derive(Debug, Deserialize)]
pub(super) struct PodRef {
    #[serde(default)]
    pub uid: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub namespace: String,
}

/// What a container uses.
#[derive(Debug, Deserialize)]
pub(super) struct ContainerUsed {
    pub name: String,
    #[serde(flatten)]
    pub used: Used,
}

/// What something uses.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Used {
    #[serde(default)]
    pub cpu: Cpu,
    #[serde(default)]
    pub memory: Memory,
}

/// Of processors.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cpu {
    #[serde(default)]
    pub time: String,
    /// Nanoseconds per second; not known of what has only begun.
    pub usage_nano_cores: Option<u64>,
}

/// Of memory.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    pub working_set_bytes: Option<u64>,
}
