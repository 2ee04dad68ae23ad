//! The pods of the node, as far as the node's own keepers need them.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;

use super::config::CRITICAL;

/// Why and how a pod is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    /// The message of its status.
    pub(super) message: String,
    /// How long its containers have to end.
    pub(super) grace: Duration,
}

/// Who runs the pods of the node.
pub(super) trait Tenants: Send + Sync + 'static {
    /// The pods that have not ended, as they were asked for.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// Ends a pod for good, whatever its restart policy.
    fn evict(&self, uid: &str, eviction: Eviction);

    /// Whether nothing of a pod runs any more.
    fn has_ended(&self, uid: &str) -> bool;
}

/// Whether a pod must stay whatever happens: the system's own, and those of files, which would not come back.
pub(super) fn is_critical(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let of = |name: &str| annotations.and_then(|known| known.get(name));
    let is_static = of("kubernetes.io/config.source").is_some_and(|source| source != "api");
    is_static || of("kubernetes.io/config.mirror").is_some() || priority(pod) >= CRITICAL
}

/// The priority of a pod.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}
