//! What pods may learn of the node and the cluster they run on.

use std::{collections::BTreeMap, net::IpAddr};

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
}
