//! The pods of the node, as far as the node's own keepers need them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

/// Why and how a pod is thrown off its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The reason of its status: `Evicted`, `Terminated`.
    pub reason: String,
    /// The message of its status.
    pub message: String,
    /// How long its containers have to end.
    pub grace: Duration,
    /// The reason of its condition `DisruptionTarget`, if it gets that.
    pub disruption: Option<String>,
}

/// Who runs the pods of the node.
#[async_trait]
pub trait Tenants: Send + Sync + 'static {
    /// The pods that have not ended, as they were asked for.
    fn pods(&self) -> Vec<Arc<Pod>>;

    /// Ends a pod for good, whatever its restart policy.
    fn evict(&self, uid: &str, eviction: Eviction);

    /// Whether nothing of a pod runs any more.
    fn has_ended(&self, uid: &str) -> bool;

    /// Removes containers that have ended and whose logs nobody can ask for.
    async fn collect_garbage(&self);
}

/// Pods below this priority are not critical.
const SYSTEM_CRITICAL: i32 = 2_000_000_000;

/// Whether a pod must stay whatever happens: the system's own, and those of files, which would not come back.
pub(super) fn is_critical(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let of = |name: &str| annotations.and_then(|known| known.get(name));
    let is_static = of("kubernetes.io/config.source").is_some_and(|source| source != "api");
    is_static || of("kubernetes.io/config.mirror").is_some() || priority(pod) >= SYSTEM_CRITICAL
}

/// The priority of a pod.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// How long a pod has to end if nobody says otherwise, in seconds.
pub(super) fn grace_of(pod: &Pod) -> u64 {
    let seconds = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(30)
}
