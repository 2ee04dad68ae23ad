//! Configuration of the node agent.
// upstream: pkg/kubelet/apis/config/types.go KubeletConfiguration

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::Taint;

use super::eviction::EvictionThreshold;

/// Lowest priority of critical pods (`system-cluster-critical`).
pub(super) const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Configuration of the node agent. [`AgentConfig::new`] sets the defaults.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// Name of the node: a lower-case DNS subdomain.
    pub node_name: String,
    /// Directory of the persistent state. Two agents on one machine need different directories.
    pub data_dir: PathBuf,
    /// Container runtime: `docker`, `podman`, `containerd` or `cri-o`. `None` uses the first one that responds.
    pub runtime: Option<String>,
    /// Socket of the container runtime: a path or a `unix://` URL. `None` tries the default paths of the runtime.
    pub runtime_endpoint: Option<String>,
    /// Addresses of the node. If empty, the address of the interface with the default route.
    pub addresses: Vec<IpAddr>,
    /// Port of the kubelet API. Default: 10250. 0 selects a free port, which the Node status reports.
    pub port: u16,
    /// Listen address of the kubelet API. Default: all addresses.
    pub listen: IpAddr,
    /// Pod networks of this node, for runtimes whose network the agent configures. If empty, `spec.podCIDRs` of the Node.
    pub pod_networks: Vec<String>,
    /// Name servers of the cluster. Empty if the cluster has no DNS.
    pub cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster. Default: `cluster.local`.
    pub cluster_domain: String,
    /// Address and port of the API server for pods.
    pub api_address: Option<(String, u16)>,
    /// CA certificates of the cluster, in PEM. They verify client certificates of the kubelet API.
    pub authority: String,
    /// Labels of the Node at registration, in addition to the default labels.
    pub labels: BTreeMap<String, String>,
    /// Taints of the Node at registration. An existing Node keeps its taints.
    pub taints: Vec<Taint>,
    /// Maximum number of pods. Default: 110.
    pub max_pods: u32,
    /// Directory of static pod manifests, if any.
    pub static_pods: Option<PathBuf>,
    /// Directory of container logs, for runtimes that write them to files. Default: `/var/log/pods`.
    pub log_dir: PathBuf,
    /// Timeout of starting a container, including the image pull. Default: 2 min.
    pub start_limit: Duration,
    /// Timeout of stopping a container, beyond its grace period. Default: 30 s.
    pub stop_limit: Duration,
    /// Whether containers without a seccomp profile get `RuntimeDefault`; otherwise they are unconfined. Default: true; upstream's
    /// `seccompDefault` is off by default.
    pub seccomp_default: bool,
    /// Period of computing the node status and of renewing the lease. Default: 10 s.
    pub status_update_frequency: Duration,
    /// Period of writing an unchanged node status. Default: 5 min.
    pub status_report_frequency: Duration,
    /// Termination of pods when the agent stops. Default: none, pods keep running.
    pub shutdown: ShutdownConfig,
    /// Eviction of pods.
    pub eviction: EvictionConfig,
    /// Image garbage collection.
    pub image_gc: ImageGcPolicy,
    /// Rotation of container logs.
    pub log_rotation: LogRotatePolicy,
}

/// Graceful node shutdown.
// upstream: pkg/kubelet/nodeshutdown/nodeshutdown_manager.go migrateConfig
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownConfig {
    /// Grace periods of priority bands: lowest priority of the band, and its grace period. The band with the lowest priority is
    /// terminated first. If empty, pods keep running and the next agent process adopts them.
    pub grace_by_priority: Vec<(i32, Duration)>,
}

/// Configuration of the eviction manager.
// upstream: pkg/kubelet/eviction/types.go Config
#[derive(Clone, Debug, PartialEq)]
pub struct EvictionConfig {
    /// Hard eviction thresholds (`evictionHard`).
    pub thresholds: Vec<EvictionThreshold>,
    /// How long a pressure condition remains after the pressure has ended (`evictionPressureTransitionPeriod`). Default: 5 min.
    pub pressure_transition_period: Duration,
    /// Period of checking the thresholds. Default: 10 s.
    pub monitoring_interval: Duration,
}

/// Configuration of image garbage collection.
// upstream: pkg/kubelet/images/image_gc_manager.go ImageGCPolicy
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Disk usage in percent that triggers garbage collection. Default: 85; 100 disables it.
    pub high_threshold_percent: u8,
    /// Disk usage in percent at which garbage collection stops. Default: 80.
    pub low_threshold_percent: u8,
    /// Minimum age of an image before it is removed. Default: 2 min.
    pub min_age: Duration,
    /// Period of garbage collection. Default: 5 min.
    pub period: Duration,
}

/// Configuration of log rotation.
// upstream: pkg/kubelet/logs/container_log_manager.go LogRotatePolicy
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRotatePolicy {
    /// Size in bytes that triggers rotation (`containerLogMaxSize`). Default: 10 MiB.
    pub max_size: u64,
    /// Maximum number of log files per container (`containerLogMaxFiles`). Default: 5.
    pub max_files: usize,
    /// Period of checking the sizes. Default: 10 s.
    pub period: Duration,
}

// --- AgentConfig ---

impl AgentConfig {
    /// Defaults for a node with this name and data directory.
    pub fn new(node_name: &str, data_dir: impl Into<PathBuf>) -> Self {
        AgentConfig {
            node_name: node_name.to_lowercase(),
            data_dir: data_dir.into(),
            runtime: None,
            runtime_endpoint: None,
            addresses: Vec::new(),
            port: 10250,
            listen: IpAddr::from([0, 0, 0, 0]),
            pod_networks: Vec::new(),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            api_address: None,
            authority: String::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            max_pods: 110,
            static_pods: None,
            log_dir: "/var/log/pods".into(),
            start_limit: Duration::from_mins(2),
            seccomp_default: true,
            stop_limit: Duration::from_secs(30),
            status_update_frequency: Duration::from_secs(10),
            status_report_frequency: Duration::from_mins(5),
            shutdown: ShutdownConfig::default(),
            eviction: EvictionConfig::default(),
            image_gc: ImageGcPolicy::default(),
            log_rotation: LogRotatePolicy::default(),
        }
    }
}

impl ShutdownConfig {
    /// Two bands, like upstream's `shutdownGracePeriod` and `shutdownGracePeriodCriticalPods`.
    pub fn new(total: Duration, critical: Duration) -> Self {
        if total.is_zero() {
            return ShutdownConfig::default();
        }
        ShutdownConfig {
            grace_by_priority: vec![
                (0, total.saturating_sub(critical)),
                (SYSTEM_CRITICAL_PRIORITY, critical),
            ],
        }
    }
}

impl Default for EvictionConfig {
    fn default() -> Self {
        EvictionConfig {
            thresholds: EvictionThreshold::defaults(),
            pressure_transition_period: Duration::from_mins(5),
            monitoring_interval: Duration::from_secs(10),
        }
    }
}

impl Default for ImageGcPolicy {
    fn default() -> Self {
        ImageGcPolicy {
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            min_age: Duration::from_mins(2),
            period: Duration::from_mins(5),
        }
    }
}

impl Default for LogRotatePolicy {
    fn default() -> Self {
        LogRotatePolicy {
            max_size: 10 << 20,
            max_files: 5,
            period: Duration::from_secs(10),
        }
    }
}

/// An invalid node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid node name: {reason}")]
pub struct InvalidNodeName {
    name: String,
    reason: String,
}

/// Parses the name of a node, and converts it to lower case.
pub fn parse_node_name(text: &str) -> Result<String, InvalidNodeName> {
    let name = text.trim().to_lowercase();
    let errors = k3_api::name::validate_dns1123_subdomain(&name);
    match errors.first() {
        None => Ok(name),
        Some(error) => Err(InvalidNodeName {
            reason: error.clone(),
            name,
        }),
    }
}

/// The default node name: the environment variable `NODE_NAME`, else the host name, in lower case; `node-1` if both are unset.
// upstream: staging/src/k8s.io/component-helpers/node/util/hostname.go GetHostname
pub fn default_node_name() -> String {
    let from_environment = std::env::var("NODE_NAME").ok();
    let host_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    first_node_name([from_environment.unwrap_or_default(), host_name])
}

/// The first name that is set. The kernel reports an unset host name as `(none)`.
fn first_node_name(names: [String; 2]) -> String {
    let mut names = names.into_iter().map(|name| name.trim().to_lowercase());
    let first = names.find(|name| !name.is_empty() && name != "(none)");
    first.unwrap_or_else(|| "node-1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_node_name_prefers_environment_over_host_name() {
        let name = |from_environment: &str, host_name: &str| {
            first_node_name([from_environment, host_name].map(str::to_owned))
        };
        assert_eq!(name(" My-Node ", "host"), "my-node");
        assert_eq!(name("", "Host"), "host");
        assert_eq!(name(" ", "(none)"), "node-1");
    }
}
