//! Facts about the node and its cluster that pods depend on.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use k3_quantity::Quantity;

/// Facts about the node. A change affects only pods that start later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Name of the node.
    pub node_name: String,
    /// Addresses of the node: `status.hostIP` of a pod is the first one, `status.hostIPs` all.
    pub addresses: Vec<IpAddr>,
    /// Allocatable resources. The downward API reports them as the limits of containers without limits.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Name servers of the cluster (`clusterDNS`). Empty if the cluster has no DNS: pods then use the name servers of the host.
    pub cluster_dns: Vec<IpAddr>,
    /// DNS domain of the cluster, such as `cluster.local`.
    pub cluster_domain: String,
    /// Address and port of the API server for pods: `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`. The cluster IP of the
    /// service `kubernetes` works only if something routes it.
    pub api_address: Option<(String, u16)>,
    /// Labels of the Node object.
    pub node_labels: BTreeMap<String, String>,
    /// Facts about the host, and settings of its agent.
    pub machine: HostFacts,
}

/// Facts about the host of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Content of `/etc/resolv.conf`, for pods that do not use the cluster's DNS. `None` means the loopback address, as in a kubelet
    /// with an empty `resolvConf`.
    pub resolv_conf: Option<String>,
    /// Memory in bytes; 0 if unknown. Base of the OOM score adjustment of Burstable pods.
    pub memory: u64,
    /// Huge page sizes in the notation of cgroups (`2MB`, `1GB`).
    pub huge_page_sizes: Vec<String>,
    /// Maximum number of processes per pod (`podPidsLimit`); unlimited if `None`.
    pub pids_limit: Option<u64>,
    /// Whether the host has cgroup v2 only.
    pub unified_cgroups: bool,
    /// Directory of the `Localhost` seccomp profiles.
    pub seccomp_profiles: PathBuf,
    /// Whether containers without a seccomp profile get `RuntimeDefault`; otherwise they are unconfined.
    pub seccomp_default: bool,
}
