//! The names and addresses that no node may serve under, whatever its status reports: a node writes its own status.
//!
//! A client that trusts the cluster's authority would take a node that serves under a name of the API server, or of a service, for
//! that server or service.

use std::net::IpAddr;

use k3_api::name::validate_dns1123_subdomain;

use crate::{cidr::Cidr, context::ServerIdentity};

/// Decides about the names that a node asks for.
// upstream: pkg/controller/certificates/signer/signer.go isKubeletServing; upstream does not restrict names, the policy is k3's own
pub(super) struct ServingNamePolicy<'a> {
    /// The API server.
    pub(super) server: &'a ServerIdentity,
    /// The networks of services.
    pub(super) service_networks: Vec<Cidr>,
    /// The node that asks.
    pub(super) node: &'a str,
}

// --- ServingNamePolicy ---

impl ServingNamePolicy<'_> {
    /// Whether the node may have a DNS name, if the name is its own.
    pub(super) fn allows_host(&self, host: &str) -> bool {
        let host = normalized(host);
        // This excludes wildcards. An address has to be asked for as an address.
        if !validate_dns1123_subdomain(&host).is_empty()
            || host.parse::<IpAddr>().is_ok()
            || is_of_service(&host)
        {
            return false;
        }
        let is_server = host == "localhost" || self.server.hosts.iter().any(|known| covers(known, &host));
        let is_machine = self.server.host_name.as_deref().map(normalized).as_deref() == Some(&*host);
        let is_own_name = host == self.node;
        // Nodes that share the machine with the server may be named after the machine.
        !is_server || (is_own_name && (self.is_in_process() || (is_machine && host != "localhost")))
    }

    /// Whether the node may have an address, if the address is its own.
    pub(super) fn allows_address(&self, address: IpAddr) -> bool {
        let plain = address.to_canonical();
        let is_special = match plain {
            IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        };
        // An address of IPv4 written as IPv6 is never allowed.
        if plain != address || plain.is_unspecified() || plain.is_multicast() || is_special {
            return false;
        }
        let is_advertised = self.server.advertise == Some(plain);
        if self.is_in_process() && is_advertised {
            return true;
        }
        if self
            .service_networks
            .iter()
            .any(|network| network.contains(plain))
        {
            return false;
        }
        // A machine without any other address is known by its loopback address, and so are all nodes on it.
        let is_loopback = plain.is_loopback() && !is_advertised;
        self.is_in_process() || !(is_loopback || self.server.foreign_addresses.contains(&plain))
    }

    /// Whether the node runs in the process of the server, which has the authority's key anyway.
    fn is_in_process(&self) -> bool {
        self.server.node.as_deref() == Some(self.node)
    }
}

/// A DNS name as it is compared.
fn normalized(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a DNS name belongs to services, that of the API server among them.
fn is_of_service(host: &str) -> bool {
    ["kubernetes", "kubernetes.default", "svc", "cluster.local"].contains(&host)
        || host.split('.').skip(1).any(|label| label == "svc")
        || host.ends_with(".cluster.local")
}

/// Whether a name of a certificate, which may begin with a wildcard, is good for a host.
fn covers(name: &str, host: &str) -> bool {
    let name = normalized(name);
    match name.strip_prefix("*.") {
        Some(domain) => host.split_once('.').is_some_and(|(_, parent)| parent == domain),
        None => name == host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerIdentity {
        ServerIdentity {
            hosts: ["localhost", "Machine", "api.example.com", "*.wild.example.com"]
                .map(str::to_owned)
                .into(),
            host_name: Some("Machine".to_owned()),
            foreign_addresses: vec![[203, 0, 113, 9].into()],
            advertise: Some([192, 0, 2, 7].into()),
            service_networks: Vec::new(),
            node: Some("inside".to_owned()),
        }
    }

    fn policy<'a>(server: &'a ServerIdentity, node: &'a str) -> ServingNamePolicy<'a> {
        ServingNamePolicy {
            server,
            service_networks: ["10.96.0.0/12", "fd00:1::/112"]
                .map(|text| text.parse().unwrap())
                .into(),
            node,
        }
    }

    #[test]
    fn rejects_service_and_server_names() {
        let server = server();
        for (node, host, is_allowed) in [
            ("n", "n", true),
            ("n", "worker.example.com", true),
            ("n", "*.default", false),
            ("n", "*", false),
            ("n", "a/b", false),
            ("n", "10.96.0.1", false),
            ("n", "kubernetes", false),
            ("kubernetes", "kubernetes", false),
            ("n", "kubernetes.default.svc", false),
            ("n", "pod-0.hook.tests.svc", false),
            ("n", "hook.tests.svc.example.com", false),
            ("n", "Kubernetes.Default.Svc.Cluster.Local.", false),
            ("n", "localhost", false),
            ("localhost", "localhost", false),
            ("n", "api.example.com", false),
            ("n", "API.example.com.", false),
            ("api.example.com", "api.example.com", false),
            ("n", "a.wild.example.com", false),
            ("n", "a.b.wild.example.com", true),
            ("n", "machine", false),
            ("machine", "machine", true),
            ("inside", "inside", true),
            ("inside", "api.example.com", false),
        ] {
            let found = policy(&server, node).allows_host(host);
            assert_eq!(found, is_allowed, "{host} for {node}");
        }
    }

    #[test]
    fn allows_the_server_node_its_host_name() {
        for name in ["api.example.com", "localhost"] {
            let server = ServerIdentity {
                node: Some(name.to_owned()),
                ..server()
            };
            assert!(policy(&server, name).allows_host(name), "{name}");
            assert!(!policy(&server, "n").allows_host(name), "{name}");
        }
    }

    #[test]
    fn rejects_shared_addresses() {
        let server = server();
        for (address, is_allowed, is_allowed_in_process) in [
            ("10.0.0.1", true, true),
            ("2001:db8::1", true, true),
            // Nodes may share the machine with the server.
            ("192.0.2.7", true, true),
            ("203.0.113.9", false, true),
            ("127.0.0.1", false, true),
            ("::1", false, true),
            ("10.96.0.0", false, false),
            ("10.96.0.1", false, false),
            ("10.111.255.255", false, false),
            ("10.112.0.1", true, true),
            ("fd00:1::1", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("224.0.0.1", false, false),
            ("ff02::1", false, false),
            ("169.254.169.254", false, false),
            ("fe80::1", false, false),
            ("255.255.255.255", false, false),
            ("::ffff:10.0.0.1", false, false),
            ("::ffff:127.0.0.1", false, false),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!(
                policy(&server, "n").allows_address(parsed),
                is_allowed,
                "{address}"
            );
            let found = policy(&server, "inside").allows_address(parsed);
            assert_eq!(
                found, is_allowed_in_process,
                "{address} for the node of the server"
            );
        }
    }

    #[test]
    fn allows_loopback_without_network() {
        let server = ServerIdentity {
            advertise: Some([127, 0, 0, 1].into()),
            ..server()
        };
        assert!(policy(&server, "n").allows_address([127, 0, 0, 1].into()));
        assert!(!policy(&server, "n").allows_address([127, 0, 0, 2].into()));
    }
}
