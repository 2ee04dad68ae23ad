//! How an agent is set up.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::Taint;

use super::pressure::Threshold;

/// Pods of at least this priority are the system's own.
pub(super) const CRITICAL: i32 = 2_000_000_000;

/// How an agent is set up. [`Config::new`] has the defaults of each.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the node: lower case, a name that the API takes.
    pub node_name: String,
    /// Where the agent keeps what it must find again. Two agents on one machine differ in it.
    pub data_dir: PathBuf,
    /// Which runtime: `docker`, `podman`, `containerd` or `cri-o`; the first that answers if none is named.
    pub runtime: Option<String>,
    /// Where that runtime listens: a path, or `unix://` with one; its usual places if none is given.
    pub runtime_endpoint: Option<String>,
    /// The addresses of the node; the one that its default route uses if none is given.
    pub addresses: Vec<IpAddr>,
    /// The port of the node's own API. Default: 10250. With 0 a free one is taken, and told.
    pub port: u16,
    /// The address that the node's own API listens on. Default: all.
    pub listen: IpAddr,
    /// The networks of the pods of this node, for runtimes that are told of them; of the Node's `spec.podCIDRs` if empty.
    pub pod_networks: Vec<String>,
    /// The name servers of the cluster; none where it has no DNS.
    pub cluster_dns: Vec<IpAddr>,
    /// The suffix of the cluster's names. Default: `cluster.local`.
    pub cluster_domain: String,
    /// Where pods reach the API.
    pub api_address: Option<(String, u16)>,
    /// The certificate of the cluster's authority, in PEM: who asks the node's own API with a certificate of it is known by it.
    pub authority: String,
    /// Labels that the node registers with, beside its own.
    pub labels: BTreeMap<String, String>,
    /// Taints that the node registers with. One that is there already keeps its own.
    pub taints: Vec<Taint>,
    /// How many pods there may be. Default: 110.
    pub max_pods: u32,
    /// The folder of static pods, if there is one.
    pub static_pods: Option<PathBuf>,
    /// Where logs of containers are, for runtimes that write them to files. Default: `/var/log/pods`.
    pub log_dir: PathBuf,
    /// How long starting a pod's container may take, pulling its image included. Default: 2 min.
    pub start_limit: Duration,
    /// How long stopping one may take beyond its own grace. Default: 30 s.
    pub stop_limit: Duration,
    /// Whether containers that name no profile of seccomp get the runtime's own; without it they have none. Default: true
    /// (upstream's `seccompDefault` is off by default).
    pub seccomp_default: bool,
    /// How often the node looks at itself and renews its lease. Default: 10 s.
    pub heartbeat: Duration,
    /// How often it writes its status although nothing changed. Default: 5 min.
    pub report: Duration,
    /// What is done with pods when the agent is told that the machine goes down. Default: nothing, they go on running.
    pub shutdown: Shutdown,
    /// When pods are thrown off the node.
    pub eviction: Eviction,
    /// When images are thrown away.
    pub images: ImageLimits,
    /// When logs are rotated.
    pub logs: LogLimits,
}

/// How pods end before the machine does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shutdown {
    /// How long pods have, by priority: those of at least that priority, up to the next. Those with the lowest go first. Empty:
    /// pods keep running, and are found again by the next agent.
    pub grace: Vec<(i32, Duration)>,
}

/// When pods are thrown off the node.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// What there must be left.
    pub hard: Vec<Threshold>,
    /// How long a condition is told after it has gone. Default: 5 min.
    pub transition: Duration,
    /// How often it is looked. Default: 10 s.
    pub period: Duration,
}

/// When images are thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageLimits {
    /// Percent of the disk in use from which images are thrown away. Default: 85; 100 never.
    pub high: u8,
    /// Down to this percentage. Default: 80.
    pub low: u8,
    /// How long an image must have been there. Default: 2 min.
    pub min_age: Duration,
    /// How often it is looked. Default: 5 min.
    pub period: Duration,
}

/// When logs are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// The size from which a log is rotated. Default: 10 MiB.
    pub size: u64,
    /// How many files of a container are kept. Default: 5.
    pub files: usize,
    /// How often it is looked. Default: 10 s.
    pub period: Duration,
}

// --- Config ---

impl Config {
    /// The defaults for a node of that name, which keeps its things in that folder.
    pub fn new(node_name: &str, data_dir: impl Into<PathBuf>) -> Self {
        Config {
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
            heartbeat: Duration::from_secs(10),
            report: Duration::from_mins(5),
            shutdown: Shutdown::default(),
            eviction: Eviction::default(),
            images: ImageLimits::default(),
            logs: LogLimits::default(),
        }
    }
}

impl Shutdown {
    /// As upstream is usually told it: how long there is, and how much of that is for critical pods.
    pub fn new(total: Duration, critical: Duration) -> Self {
        if total.is_zero() {
            return Shutdown::default();
        }
        Shutdown {
            grace: vec![(0, total.saturating_sub(critical)), (CRITICAL, critical)],
        }
    }
}

impl Default for Eviction {
    fn default() -> Self {
        Eviction {
            hard: Threshold::defaults(),
            transition: Duration::from_mins(5),
            period: Duration::from_secs(10),
        }
    }
}

impl Default for ImageLimits {
    fn default() -> Self {
        ImageLimits {
            high: 85,
            low: 80,
            min_age: Duration::from_mins(2),
            period: Duration::from_mins(5),
        }
    }
}

impl Default for LogLimits {
    fn default() -> Self {
        LogLimits {
            size: 10 << 20,
            files: 5,
            period: Duration::from_secs(10),
        }
    }
}

/// A name that no node can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a valid node name: {why}")]
pub struct InvalidNodeName {
    name: String,
    why: String,
}

/// Reads the name of a node: in lower case, as the API takes it.
pub fn parse_node_name(text: &str) -> Result<String, InvalidNodeName> {
    let name = text.trim().to_lowercase();
    let faults = k3_api::name::validate_dns1123_subdomain(&name);
    match faults.first() {
        None => Ok(name),
        Some(fault) => Err(InvalidNodeName {
            why: fault.clone(),
            name,
        }),
    }
}

/// The name of this node where none is given: `NODE_NAME`, or the name of the machine, in lower case; `node-1` on one that has
/// none.
pub fn default_node_name() -> String {
    let given = std::env::var("NODE_NAME").ok();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name_of([given.unwrap_or_default(), machine])
}

/// The first that is a name.
fn name_of(names: [String; 2]) -> String {
    let mut names = names.into_iter().map(|name| name.trim().to_lowercase());
    let known = names.find(|name| !name.is_empty() && name != "(none)");
    known.unwrap_or_else(|| "node-1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_what_is_said_or_as_its_machine_or_node_1() {
        let named = |given: &str, machine: &str| name_of([given, machine].map(str::to_owned));
        assert_eq!(named(" My-Node ", "host"), "my-node");
        assert_eq!(named("", "Host"), "host");
        assert_eq!(named(" ", "(none)"), "node-1");
    }
}
