//! What the rest of the agent sees of its pods.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    Config,
    link::RuntimeState,
    tenants::{Eviction, Tenants},
};
use crate::{
    pod::PodManager,
    runtime::{ContainerId, Runtime, RuntimeError, SandboxId},
    server::Lookup,
};

/// What the rest of the agent sees of its pods.
pub(super) struct View {
    pub(super) config: Arc<Config>,
    pub(super) pods: PodManager,
    pub(super) state: watch::Receiver<RuntimeState>,
}

impl Tenants for View {
    fn pods(&self) -> Vec<Arc<Pod>> {
        let has_ended = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        self.pods
            .list()
            .into_iter()
            .filter(|pod| !has_ended(pod))
            .map(Arc::new)
            .collect()
    }

    fn evict(&self, uid: &str, eviction: Eviction) {
        let grace = i64::try_from(eviction.grace.as_secs()).unwrap_or(i64::MAX);
        self.pods.evict(uid, "Evicted", &eviction.message, Some(grace));
    }

    fn has_ended(&self, uid: &str) -> bool {
        self.pods.is_stopped(uid)
    }
}

#[async_trait]
impl Lookup for View {
    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        Lookup::runtime(&self.pods)
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        Lookup::pods(&self.pods)
    }

    fn runtime_uid(&self, pod: &Pod) -> String {
        self.pods.runtime_uid(pod)
    }

    async fn container(&self, pod: &Pod, name: &str) -> Result<Option<ContainerId>, RuntimeError> {
        self.pods.container(pod, name).await
    }

    async fn sandbox(&self, pod: &Pod) -> Result<Option<SandboxId>, RuntimeError> {
        self.pods.sandbox(pod).await
    }

    fn problems(&self) -> Vec<String> {
        self.state.borrow().problems.clone()
    }

    /// In the words of upstream's configuration, as far as ours has the same.
    fn settings(&self) -> Value {
        let config = &self.config;
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        json!({
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "port": config.port,
            "address": config.listen,
            "clusterDNS": config.cluster_dns,
            "clusterDomain": config.cluster_domain,
            "maxPods": config.max_pods,
            "staticPodPath": config.static_pods,
            "nodeStatusUpdateFrequency": seconds(config.heartbeat),
            "nodeStatusReportFrequency": seconds(config.report),
            "nodeLeaseDurationSeconds": 40,
            "imageGCHighThresholdPercent": config.images.high,
            "imageGCLowThresholdPercent": config.images.low,
            "imageMinimumGCAge": seconds(config.images.min_age),
            "evictionPressureTransitionPeriod": seconds(config.eviction.transition),
            "containerLogMaxSize": config.logs.size.to_string(),
            "containerLogMaxFiles": config.logs.files,
        })
    }
}
