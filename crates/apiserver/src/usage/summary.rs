//! A node's summary of itself and its pods: the used part of `/stats/summary`.

use serde::Deserialize;

/// A node's summary.
#[derive(Debug, Default, Deserialize)]
pub(super) struct NodeSummary {
    #[serde(default)]
    pub node: ResourceStats,
    #[serde(default)]
    pub pods: Vec<PodStats>,
}

/// What a pod uses.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStats {
    pub pod_ref: PodRef,
    #[serde(default)]
    pub containers: Vec<ContainerStats>,
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
pub(super) struct ContainerStats {
    pub name: String,
    #[serde(flatten)]
    pub used: ResourceStats,
}

/// What something uses.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResourceStats {
    #[serde(default)]
    pub cpu: CpuStats,
    #[serde(default)]
    pub memory: MemoryStats,
}

/// Of processors.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuStats {
    #[serde(default)]
    pub time: String,
    /// Nanoseconds per second; not known of what has only begun.
    pub usage_nano_cores: Option<u64>,
}

/// Of memory.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryStats {
    pub working_set_bytes: Option<u64>,
}
