//! Resource usage of the node and its pods.
//!
//! ```text
//! node     usage of the node, from /proc
//! summary  /stats/summary
//! metrics  /metrics/resource and /metrics/cadvisor in the Prometheus text format
//! ```
//!
//! Usage is measured only on request. CPU rates are the difference of two samples: the previous one if it is recent, else two samples
//! are taken, a moment apart.
// upstream: pkg/kubelet/server/stats/handler.go Provider

mod metrics;
mod node;
mod summary;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::Clock;
use tokio::{
    sync::Mutex,
    time::{self, Instant},
};

use self::node::NodeUsage;
pub(super) use self::{
    metrics::{cadvisor_metrics, resource_metrics},
    summary::summary,
};
use super::host::{HostInterface, no_runtime, with_timeout};
use crate::{
    PodIdentity,
    runtime::{ContainerStats, Runtime, RuntimeError},
};

/// Minimum interval between two samples: a shorter one gives no meaningful rate.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum age of the previous sample: with an older one the rate would be an average over the past.
const MAX_SAMPLE_AGE: Duration = Duration::from_mins(1);

/// Takes samples of the resource usage, and caches the last one.
pub(super) struct StatsProvider {
    node: String,
    data_dir: PathBuf,
    clock: Clock,
    /// The last sample. Locked while samples are taken (single flight): requests that wait use the new one as their previous sample.
    last: Mutex<Option<Arc<StatsSample>>>,
}

/// Resource usage at one time.
pub(super) struct StatsSample {
    at: Instant,
    time: Timestamp,
    node_usage: NodeUsage,
    containers: Vec<ContainerStats>,
    /// Bytes used by images, if the runtime reports them.
    image_fs_used: Option<u64>,
}

/// A sample, and the CPU rates since the previous one.
pub(super) struct StatsSnapshot {
    pub node: String,
    pub now: Arc<StatsSample>,
    /// CPU time per second in nanoseconds (`usageNanoCores`), by pod and container.
    container_cpu_rates: HashMap<(PodIdentity, String), u64>,
    node_cpu_rate: u64,
}

// --- StatsProvider ---

impl StatsProvider {
    pub(super) fn new(node: String, data_dir: PathBuf, clock: Clock) -> Self {
        StatsProvider {
            node,
            data_dir,
            clock,
            last: Mutex::default(),
        }
    }

    /// The current usage. Concurrent requests wait for each other and share the previous sample.
    pub(super) async fn snapshot(&self, host: &dyn HostInterface) -> Result<StatsSnapshot, RuntimeError> {
        let runtime = host.runtime().ok_or_else(no_runtime)?;
        let mut last = self.last.lock().await;
        let before = match last.take() {
            Some(sample) if sample.at.elapsed() < MAX_SAMPLE_AGE => sample,
            _ => Arc::new(self.take_sample(&*runtime).await?),
        };
        time::sleep_until(before.at + MIN_SAMPLE_INTERVAL).await;
        let now = Arc::new(self.take_sample(&*runtime).await?);
        *last = Some(Arc::clone(&now));
        Ok(StatsSnapshot::new(self.node.clone(), &before, now))
    }

    async fn take_sample(&self, runtime: &dyn Runtime) -> Result<StatsSample, RuntimeError> {
        let containers = with_timeout("measuring containers", runtime.list_container_stats()).await?;
        let image_fs = with_timeout("measuring images", runtime.image_fs_info())
            .await
            .ok();
        Ok(StatsSample {
            at: Instant::now(),
            time: self.clock.now(),
            node_usage: NodeUsage::read(&self.data_dir).await,
            containers,
            image_fs_used: image_fs.map(|image_fs| image_fs.used),
        })
    }
}

// --- StatsSnapshot ---

impl StatsSnapshot {
    fn new(node: String, before: &StatsSample, now: Arc<StatsSample>) -> Self {
        let seconds = (now.at - before.at).as_secs_f64();
        let key = |usage: &ContainerStats| (usage.pod.clone(), usage.name.clone());
        let cpu_before: HashMap<_, _> = before
            .containers
            .iter()
            .map(|usage| (key(usage), usage.cpu_nanoseconds))
            .collect();
        let container_cpu_rates = now.containers.iter().filter_map(|usage| {
            let key = key(usage);
            // The counter of a restarted container starts at zero again: no rate until the next sample.
            let used = usage.cpu_nanoseconds.checked_sub(*cpu_before.get(&key)?)?;
            Some((key, per_second(used, seconds)))
        });
        let node_cpu = now
            .node_usage
            .cpu_nanoseconds
            .saturating_sub(before.node_usage.cpu_nanoseconds);
        StatsSnapshot {
            node,
            container_cpu_rates: container_cpu_rates.collect(),
            node_cpu_rate: per_second(node_cpu, seconds),
            now,
        }
    }

    /// CPU rate of a container in nanocores, if known.
    fn cpu_rate(&self, usage: &ContainerStats) -> Option<u64> {
        self.container_cpu_rates
            .get(&(usage.pod.clone(), usage.name.clone()))
            .copied()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate is small, not negative, and as imprecise as the clock"
)]
fn per_second(used: u64, seconds: f64) -> u64 {
    if seconds <= 0.0 {
        return 0;
    }
    (used as f64 / seconds) as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(pod: &str, name: &str, cpu: u64) -> ContainerStats {
        ContainerStats {
            pod: PodIdentity {
                namespace: "n".to_owned(),
                name: pod.to_owned(),
                uid: format!("{pod}-uid"),
            },
            name: name.to_owned(),
            cpu_nanoseconds: cpu,
            memory: 2000,
            memory_working_set: 1000,
            writable_layer: 10,
            pids: 3,
            network: name.is_empty().then_some((5, 6)),
        }
    }

    fn sample(at: Instant, cpu: u64) -> StatsSample {
        StatsSample {
            at,
            time: "2026-11-16T12:00:00Z".parse().unwrap(),
            node_usage: NodeUsage {
                cpu_nanoseconds: cpu * 10,
                memory_total: 100,
                memory_used: 60,
                memory_working_set: 50,
                ..NodeUsage::default()
            },
            containers: vec![usage("p", "", 0), usage("p", "a", cpu), usage("p", "b", 7)],
            image_fs_used: Some(1),
        }
    }

    fn stats() -> StatsSnapshot {
        let at = Instant::now();
        let before = sample(at, 1_000_000_000);
        let now = sample(at + Duration::from_secs(10), 2_000_000_000);
        StatsSnapshot::new("node".to_owned(), &before, Arc::new(now))
    }

    #[tokio::test]
    async fn summary_sums_containers_of_pod() {
        let summary = summary(&stats(), &[]);
        assert_eq!(summary["node"]["nodeName"], "node");
        assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 1_000_000_000);
        assert_eq!(summary["node"]["memory"]["workingSetBytes"], 50);
        let pod = &summary["pods"][0];
        assert_eq!(
            pod["podRef"],
            json!({"name": "p", "namespace": "n", "uid": "p-uid"})
        );
        assert_eq!(pod["containers"].as_array().unwrap().len(), 2);
        assert_eq!(pod["containers"][0]["cpu"]["usageNanoCores"], 100_000_000);
        assert_eq!(pod["cpu"]["usageNanoCores"], 100_000_000);
        assert_eq!(pod["memory"]["workingSetBytes"], 3000);
        assert_eq!(pod["network"]["rxBytes"], 5);
    }

    #[tokio::test]
    async fn formats_prometheus_metrics() {
        let text = resource_metrics(&stats(), &[]);
        for line in [
            "# TYPE container_cpu_usage_seconds_total counter",
            "container_cpu_usage_seconds_total{container=\"a\",namespace=\"n\",pod=\"p\"} 2 1794830400000",
            "container_memory_working_set_bytes{container=\"a\",namespace=\"n\",pod=\"p\"} 1000 1794830400000",
            "pod_memory_working_set_bytes{namespace=\"n\",pod=\"p\"} 3000 1794830400000",
            "node_memory_working_set_bytes 50 1794830400000",
            "resource_scrape_error 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        let cadvisor = cadvisor_metrics(&stats());
        assert!(
            cadvisor.contains("container_network_receive_bytes_total{"),
            "{cadvisor}"
        );
    }

    #[test]
    fn restarted_container_has_no_rate() {
        let at = Instant::now();
        let stats = StatsSnapshot::new(
            String::new(),
            &sample(at, 9),
            Arc::new(sample(at + Duration::from_secs(1), 3)),
        );
        assert_eq!(stats.cpu_rate(&usage("p", "a", 3)), None);
        assert_eq!(stats.cpu_rate(&usage("p", "b", 7)), Some(0));
    }
}
