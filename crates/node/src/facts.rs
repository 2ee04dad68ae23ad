//! What pods may learn of the node and the cluster they run on.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use k3_quantity::Quantity;

/// What is known of this node when pods are made. Changes reach pods that are made later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The node's name.
    pub node_name: String,
    /// Its addresses, the first one first: `status.hostIP` and `status.hostIPs` of its pods.
    pub addresses: Vec<IpAddr>,
    /// What pods may use of it, by resource; limits that containers do not set are told as this.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The name servers of the cluster; none where the cluster has no DNS: then pods get those of the machine.
    pub cluster_dns: Vec<IpAddr>,
    /// The suffix of the cluster's names, such as `cluster.local`.
    pub cluster_domain: String,
    /// Where pods reach the API: what `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` say. The service's own address only
    /// where something routes it.
    pub api_address: Option<(String, u16)>,
    /// The labels of the node.
    pub node_labels: BTreeMap<String, String>,
    /// What the machine itself has, and how its agent is set.
    pub machine: Machine,
}

/// What is known of the machine under the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The text of its `/etc/resolv.conf`: where pods resolve names that do not use the cluster's DNS. `None` is told as the
    /// machine's own loopback, as for a kubelet that was given no such file.
    pub resolv_conf: Option<String>,
    /// Its memory in bytes; by it memory pressure is shared out among pods. 0 where it is not known.
    pub memory: u64,
    /// The sizes of huge pages it has, as cgroups name them (`2MB`, `1GB`).
    pub huge_page_sizes: Vec<String>,
    /// How many processes each pod may have; no limit if `None`.
    pub pids_limit: Option<u64>,
    /// Whether it has cgroups of version 2 only.
    pub unified_cgroups: bool,
    /// The folder in which profiles of seccomp are looked for that pods name.
    pub seccomp_profiles: PathBuf,
    /// Whether containers that name no profile of seccomp get the runtime's; without it they have none.
    pub seccomp_default: bool,
}
