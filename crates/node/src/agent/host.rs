//! Access of the eviction manager and of the kubelet server to the pods of the node.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    AgentConfig,
    eviction::{ActivePods, EvictionRequest},
    runtime_monitor::RuntimeState,
};
use crate::{
    pod::PodManager,
    runtime::{ContainerId, Runtime, RuntimeError, SandboxId},
    server::HostInterface,
};

/// The pod manager as the eviction manager and the kubelet server use it.
pub(super) struct AgentHost {
    pub(super) config: Arc<AgentConfig>,
    pub(super) pods: PodManager,
    pub(super) state: watch::Receiver<RuntimeState>,
}

impl ActivePods for AgentHost {
    fn pods(&self) -> Vec<Arc<Pod>> {
        let is_terminal = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        self.pods
            .list()
            .into_iter()
            .filter(|pod| !is_terminal(pod))
            .map(Arc::new)
            .collect()
    }

    fn evict(&self, uid: &str, request: EvictionRequest) {
        let grace = i64::try_from(request.grace.as_secs()).unwrap_or(i64::MAX);
        self.pods.evict(uid, "Evicted", &request.message, Some(grace));
    }

    fn is_stopped(&self, uid: &str) -> bool {
        self.pods.is_stopped(uid)
    }
}

#[async_trait]
impl HostInterface for AgentHost {
    fn runtime(&self) -> Option<Arc<dyn Runtime>> {
        HostInterface::runtime(&self.pods)
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        HostInterface::pods(&self.pods)
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

    /// The settings that upstream's `KubeletConfiguration` has too.
    fn configuration(&self) -> Value {
        let config = &self.config;
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        json!({
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "port": config.port,
            "address": config.listen,
            "clusterDNS": config.cluster_dns,
            "clusterDomain": config.cluster_domain,
            "maxPods": config.max_pods,
            "staticPodPath": config.static_pods,
            "nodeStatusUpdateFrequency": seconds(config.status_update_frequency),
            "nodeStatusReportFrequency": seconds(config.status_report_frequency),
            "nodeLeaseDurationSeconds": 40,
            "imageGCHighThresholdPercent": config.image_gc.high_threshold_percent,
            "imageGCLowThresholdPercent": config.image_gc.low_threshold_percent,
            "imageMinimumGCAge": seconds(config.image_gc.min_age),
            "evictionPressureTransitionPeriod": seconds(config.eviction.pressure_transition_period),
            "containerLogMaxSize": config.log_rotation.max_size.to_string(),
            "containerLogMaxFiles": config.log_rotation.max_files,
        })
    }
}
