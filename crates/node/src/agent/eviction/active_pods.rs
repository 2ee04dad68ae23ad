//! Interface of the eviction manager to the pods of the node.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;

use crate::agent::config::SYSTEM_CRITICAL_PRIORITY;

/// Message and grace period of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) struct EvictionRequest {
    /// Message of the pod status.
    pub(in crate::agent) message: String,
    /// Grace period of the containers.
    pub(in crate::agent) grace: Duration,
}

/// The pods that the eviction manager may evict.
// upstream: pkg/kubelet/eviction/types.go ActivePodsFunc, KillPodFunc, PodCleanedUpFunc
pub(in crate::agent) trait ActivePods: Send + Sync + 'static {
    /// Pods whose phase is not terminal.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// Terminates a pod regardless of its restart policy. Its phase becomes Failed.
    fn evict(&self, uid: &str, request: EvictionRequest);

    /// Whether no container of a pod runs.
    fn is_stopped(&self, uid: &str) -> bool;
}

/// Whether a pod must not be evicted. Static pods are critical: no controller recreates them on another node.
// upstream: pkg/kubelet/types/pod_update.go IsCriticalPod
pub(super) fn is_critical_pod(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let annotation = |name: &str| annotations.and_then(|annotations| annotations.get(name));
    let is_static = annotation("kubernetes.io/config.source").is_some_and(|source| source != "api");
    let is_mirror = annotation("kubernetes.io/config.mirror").is_some();
    is_static || is_mirror || pod_priority(pod) >= SYSTEM_CRITICAL_PRIORITY
}

/// `spec.priority`, 0 if unset.
pub(super) fn pod_priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}
