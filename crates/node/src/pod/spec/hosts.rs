//! Content of `/etc/hosts`.
// upstream: pkg/kubelet/kubelet_pods.go managedHostsFileContent, nodeHostsFileContent

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, Pod};

use super::{PodHostname, SpecError};
use crate::NodeFacts;

const MANAGED_HEADER: &str = "# Kubernetes-managed hosts file.\n";
const MANAGED_HEADER_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOOPBACK: &str = "127.0.0.1\tlocalhost\n\
                        ::1\tlocalhost ip6-localhost ip6-loopback\n\
                        fe00::0\tip6-localnet\n\
                        fe00::0\tip6-mcastprefix\n\
                        fe00::1\tip6-allnodes\n\
                        fe00::2\tip6-allrouters\n";

/// The hosts file of a pod with these IPs. `node_hosts` is the node's own file, for pods with `hostNetwork`.
pub fn hosts_file(
    pod: &Pod,
    facts: &NodeFacts,
    addresses: &[IpAddr],
    node_hosts: &str,
) -> Result<String, SpecError> {
    let spec = pod.spec.as_ref();
    let aliases = spec
        .and_then(|spec| spec.host_aliases.as_deref())
        .unwrap_or_default();
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        return Ok([
            MANAGED_HEADER_HOST_NETWORK,
            node_hosts,
            &host_alias_entries(aliases),
        ]
        .concat());
    }
    let PodHostname { host, domain, .. } = PodHostname::new(pod, &facts.cluster_domain)?;
    let mut text = [MANAGED_HEADER, LOOPBACK].concat();
    for address in addresses {
        let line = if domain.is_empty() {
            format!("{address}\t{host}\n")
        } else {
            format!("{address}\t{host}.{domain}\t{host}\n")
        };
        text.push_str(&line);
    }
    text.push_str(&host_alias_entries(aliases));
    Ok(text)
}

// upstream: pkg/kubelet/kubelet_pods.go hostsEntriesFromHostAliases
fn host_alias_entries(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let lines = aliases.iter().map(|alias| {
        let names = alias.hostnames.as_deref().unwrap_or_default();
        format!("{}\t{}\n", alias.ip, names.join("\t"))
    });
    std::iter::once("\n# Entries added by HostAliases.\n".to_owned())
        .chain(lines)
        .collect()
}
