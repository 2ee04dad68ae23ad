//! The text of `/etc/hosts`.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, Pod};

use super::{Names, SpecError};
use crate::Facts;

const OWN: &str = "# Kubernetes-managed hosts file.\n";
const SHARED: &str = "# Kubernetes-managed hosts file (host network).\n";
const LOOPBACK: &str = "127.0.0.1\tlocalhost\n\
                        ::1\tlocalhost ip6-localhost ip6-loopback\n\
                        fe00::0\tip6-localnet\n\
                        fe00::0\tip6-mcastprefix\n\
                        fe00::1\tip6-allnodes\n\
                        fe00::2\tip6-allrouters\n";

/// The file for a pod with these addresses. `machine` is the text of the machine's own file, for pods with its network.
pub fn hosts_file(
    pod: &Pod,
    facts: &Facts,
    addresses: &[IpAddr],
    machine: &str,
) -> Result<String, SpecError> {
    let spec = pod.spec.as_ref();
    let aliases = spec
        .and_then(|spec| spec.host_aliases.as_deref())
        .unwrap_or_default();
    if spec.and_then(|spec| spec.host_network) == Some(true) {
        return Ok([SHARED, machine, &aliases_text(aliases)].concat());
    }
    let Names { host, domain, .. } = Names::of(pod, &facts.cluster_domain)?;
    let mut text = [OWN, LOOPBACK].concat();
    for address in addresses {
        let line = if domain.is_empty() {
            format!("{address}\t{host}\n")
        } else {
            format!("{address}\t{host}.{domain}\t{host}\n")
        };
        text.push_str(&line);
    }
    text.push_str(&aliases_text(aliases));
    Ok(text)
}

fn aliases_text(aliases: &[HostAlias]) -> String {
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
