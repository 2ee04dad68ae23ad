//! Connections to kubelets: address, port and client certificate.

use std::sync::Arc;

use k3_api::{go, kinds::builtin, status::Status, strategy::Tree};
use parking_lot::{RwLock, RwLockReadGuard};
use rustls::ClientConfig;
use serde_json::Value;

use super::{CallError, DialRule, Dialer, ProxyLocation, trust};
use crate::{NodeClient, cache::WatchCaches, registry::Resource};

/// The port of a node's own API if it does not say another.
const PORT: u16 = 10250;
/// Which address of a node is taken, the first that it has.
const PREFERRED: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

/// What the version of a simulated node's runtime begins with.
const SIMULATED_RUNTIME: &str = "simulated://";

/// The nodes of the cluster, as servers that are called.
pub(crate) struct NodeConnectionInfoGetter {
    caches: Arc<WatchCaches>,
    dialer: Arc<Dialer>,
    /// How TLS is spoken to nodes; `None` if the server has no identity to show them.
    tls: RwLock<Option<NodeTls>>,
    /// TLS to pods and services: any certificate is accepted, no client certificate is sent.
    anybody: Arc<ClientConfig>,
}

struct NodeTls {
    verified: Arc<ClientConfig>,
    /// The same, but any certificate will do, for who asks so.
    unverified: Arc<ClientConfig>,
}

/// Whether the certificate of a node is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeCertificateCheck {
    Verify,
    /// The client asked for that: `insecureSkipTLSVerifyBackend`.
    Skip,
}

/// Where the kubelet API of a node is.
// upstream: pkg/kubelet/client/kubelet_client.go ConnectionInfo
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeConnectionInfo {
    pub host: String,
    pub port: u16,
}

/// A node reports no address of a type that is called; the others.
#[derive(Debug, thiserror::Error)]
#[error("no preferred addresses found; known addresses: [{0}]")]
struct NoNodeAddress(String);

// --- NodeConnectionInfoGetter ---

impl NodeConnectionInfoGetter {
    /// Nodes that are found in these caches.
    pub(crate) fn new(
        caches: Arc<WatchCaches>,
        client: Option<&NodeClient>,
        dialer: Arc<Dialer>,
    ) -> Result<Self, CallError> {
        let tls = RwLock::new(client.map(NodeTls::new).transpose()?);
        let anybody = Arc::new(trust::unverified(None)?);
        Ok(NodeConnectionInfoGetter {
            caches,
            dialer,
            tls,
            anybody,
        })
    }

    /// Shows nodes another identity from now on.
    pub(crate) fn replace_client(&self, client: &NodeClient) -> Result<(), CallError> {
        let tls = NodeTls::new(client)?;
        *self.tls.write() = Some(tls);
        Ok(())
    }

    fn tls(&self) -> RwLockReadGuard<'_, Option<NodeTls>> {
        self.tls.read()
    }

    /// How TLS is spoken to who is not a node.
    pub(crate) fn anybody(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.anybody)
    }

    /// Whether nodes can be called at all.
    pub(crate) fn can_be_called(&self) -> bool {
        self.tls().is_some()
    }

    /// What connects to nodes, pods and services.
    pub(crate) fn dialer(&self) -> Arc<Dialer> {
        Arc::clone(&self.dialer)
    }

    /// The address of a node's kubelet. A simulated node has none.
    // upstream: pkg/kubelet/client/kubelet_client.go GetConnectionInfo
    pub(crate) fn find(&self, name: &str) -> Result<NodeConnectionInfo, Status> {
        let nodes = self.resource();
        let key = nodes.key("", name)?;
        let node = nodes.cache.get(&key).ok_or_else(|| nodes.not_found(name))?.tree();
        if is_simulated(&node) {
            return Err(simulated_node(name));
        }
        reached(&node).map_err(|error| Status::unknown(error.to_string()))
    }

    /// Whether a node is known to be simulated.
    pub(crate) fn is_simulated(&self, name: &str) -> bool {
        let nodes = self.resource();
        let node = nodes.key("", name).ok().and_then(|key| nodes.cache.get(&key));
        node.is_some_and(|node| is_simulated(&node.tree()))
    }

    /// A path of a node's own API. Its certificate must be of the cluster, and for this node, unless that is not checked.
    pub(crate) fn location(
        &self,
        name: &str,
        reached: NodeConnectionInfo,
        check: NodeCertificateCheck,
        path: String,
        query: String,
    ) -> Result<ProxyLocation, Status> {
        let tls = self.tls();
        let tls = tls.as_ref().ok_or_else(|| unreachable_node(name))?;
        let tls = match check {
            NodeCertificateCheck::Verify => &tls.verified,
            NodeCertificateCheck::Skip => &tls.unverified,
        };
        Ok(ProxyLocation {
            tls: Some(Arc::clone(tls)),
            host: reached.host,
            port: reached.port,
            path,
            query,
            dialer: self.dialer(),
            rule: DialRule::Node,
            node: (check == NodeCertificateCheck::Verify).then(|| name.to_owned()),
        })
    }

    fn resource(&self) -> Resource {
        let kind = builtin().kind("", "v1", "Node").expect("the kind is built in");
        Resource::of(kind, &self.caches)
    }
}

// --- NodeTls ---

impl NodeTls {
    fn new(client: &NodeClient) -> Result<Self, CallError> {
        Ok(NodeTls {
            verified: Arc::new(trust::node(client)?),
            unverified: Arc::new(trust::unverified(Some(client))?),
        })
    }
}

/// The answer of a server that has no identity to show to nodes.
pub(crate) fn unreachable_node(node: &str) -> Status {
    Status::service_unavailable(format!(
        "node {} cannot be reached: no node agent serves it; start one, then try again",
        go::quote(node)
    ))
}

/// The answer of a server that is asked for something that only a real node has.
pub(crate) fn simulated_node(node: &str) -> Status {
    Status::bad_request(format!(
        "node {} is simulated: its pods have no containers, so logs, exec, attach, port-forward and proxy are not available",
        go::quote(node)
    ))
}

/// Whether a node reports that it is simulated. One that does so falsely is never called.
fn is_simulated(node: &Value) -> bool {
    let runtime = node.at("status").at("nodeInfo").text("containerRuntimeVersion");
    runtime.starts_with(SIMULATED_RUNTIME)
}

/// The address and port that a node reports.
// upstream: pkg/util/node/node.go GetPreferredNodeAddress
fn reached(node: &Value) -> Result<NodeConnectionInfo, NoNodeAddress> {
    let status = node.at("status");
    let addresses = status.items("addresses");
    let host = PREFERRED.iter().find_map(|sort| {
        let found = addresses.iter().find(|address| address.text("type") == *sort)?;
        Some(found.text("address")).filter(|address| !address.is_empty())
    });
    let Some(host) = host else {
        let known: Vec<String> = addresses
            .iter()
            .map(|address| format!("{{{} {}}}", address.text("type"), address.text("address")))
            .collect();
        return Err(NoNodeAddress(known.join(" ")));
    };
    let port = status.at("daemonEndpoints").at("kubeletEndpoint").int("Port");
    Ok(NodeConnectionInfo {
        host: host.to_owned(),
        port: port
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
            .unwrap_or(PORT),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn uses_preferred_node_address_and_kubelet_port() {
        let node = json!({"status": {
            "addresses": [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1234}},
        }});
        let found = reached(&node).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("10.0.0.1", 1234));
        let node = json!({"status": {"addresses": [{"type": "Hostname", "address": "a"}]}});
        let found = reached(&node).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("a", 10250));
        let node = json!({"status": {"addresses": [{"type": "InternalDNS", "address": "a"}]}});
        assert_eq!(
            reached(&node).unwrap_err().to_string(),
            "no preferred addresses found; known addresses: [{InternalDNS a}]"
        );
    }
}
