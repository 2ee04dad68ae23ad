//! Resolver configuration of a pod.
// upstream: pkg/kubelet/network/dns/dns.go Configurer, GetPodDNS

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use crate::{NodeFacts, identity::format_pod, runtime::DnsSpec};

/// Maximum number of name servers.
const MAX_NAMESERVERS: usize = 3;
/// Maximum number of search domains.
const MAX_SEARCH_DOMAINS: usize = 32;
/// Maximum length of the search line.
const MAX_SEARCH_LINE: usize = 2048;
/// Maximum length of a search domain: some resolvers abort on a longer one.
const MAX_DOMAIN_LENGTH: usize = 253;

/// A warning event about the resolver configuration of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsWarning {
    /// Event reason.
    pub reason: &'static str,
    /// Event message.
    pub message: String,
}

/// Which name servers a pod uses.
// upstream: pkg/kubelet/network/dns/dns.go podDNSType, getPodDNSType
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodDnsType {
    Cluster,
    Host,
    None,
}

/// Warnings to record as events when the sandbox is created.
pub fn dns_warnings(pod: &Pod, facts: &NodeFacts) -> Vec<DnsWarning> {
    resolve(pod, facts).1
}

/// Resolver configuration of a pod.
pub(super) fn get_pod_dns(pod: &Pod, facts: &NodeFacts) -> DnsSpec {
    resolve(pod, facts).0
}

fn resolve(pod: &Pod, facts: &NodeFacts) -> (DnsSpec, Vec<DnsWarning>) {
    let mut warnings = Vec::new();
    let host_resolv_conf = facts.machine.resolv_conf.as_deref();
    let mut dns = host_resolv_conf.map(parse_resolv_conf).unwrap_or_default();
    let mut dns_type = get_pod_dns_type(pod);
    if dns_type == PodDnsType::Cluster && facts.cluster_dns.is_empty() {
        let reason = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                   Falling back to \"Default\" policy.";
        warnings.push(DnsWarning {
            reason: "MissingClusterDNS",
            message: format!("pod: \"{}\". {reason}", format_pod(pod)),
        });
        dns_type = PodDnsType::Host;
    }
    match dns_type {
        PodDnsType::None => dns = DnsSpec::default(),
        PodDnsType::Cluster => {
            dns.servers = facts.cluster_dns.iter().map(ToString::to_string).collect();
            dns.searches = generate_cluster_searches(pod, &facts.cluster_domain, dns.searches);
            dns.options = vec!["ndots:5".to_owned()];
        }
        PodDnsType::Host if host_resolv_conf.is_none() => {
            dns.servers = loopback(&facts.addresses);
            dns.searches = vec![".".to_owned()];
        }
        PodDnsType::Host => {}
    }
    if let Some(config) = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref()) {
        append_dns_config(&mut dns, config);
    }
    form_dns_config_fits_limits(&mut dns, &mut warnings);
    (dns, warnings)
}

fn get_pod_dns_type(pod: &Pod) -> PodDnsType {
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network) == Some(true);
    match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => PodDnsType::None,
        Some("Default") => PodDnsType::Host,
        Some("ClusterFirst") if host_network => PodDnsType::Host,
        _ => PodDnsType::Cluster,
    }
}

/// Parses a `resolv.conf`.
// upstream: pkg/kubelet/network/dns/dns.go parseResolvConf
fn parse_resolv_conf(text: &str) -> DnsSpec {
    let mut dns = DnsSpec::default();
    let mut options = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("nameserver") => dns.servers.extend(fields.next().map(str::to_owned)),
            // The last `search` line counts.
            Some("search") => {
                let searches = fields.filter(|domain| *domain != ".");
                dns.searches = searches
                    .map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned())
                    .collect();
            }
            Some("options") => {
                for option in fields {
                    let name = option.split(':').next().unwrap_or(option);
                    options.insert(name, option);
                }
            }
            _ => {}
        }
    }
    dns.options = options.into_values().map(str::to_owned).collect();
    dns
}

// upstream: pkg/kubelet/network/dns/dns.go generateSearchesForDNSClusterFirst
fn generate_cluster_searches(pod: &Pod, domain: &str, host_searches: Vec<String>) -> Vec<String> {
    if domain.is_empty() {
        return host_searches;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let cluster_searches = [
        format!("{namespace}.svc.{domain}"),
        format!("svc.{domain}"),
        domain.to_owned(),
    ];
    omit_duplicates(cluster_searches.into_iter().chain(host_searches))
}

/// Without a resolv.conf of the node, resolvers use the loopback address.
fn loopback(addresses: &[IpAddr]) -> Vec<String> {
    let loopback_of = |address: &IpAddr| if address.is_ipv6() { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<_> = addresses
        .iter()
        .map(|address| loopback_of(address).to_owned())
        .collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    servers
}

// upstream: pkg/kubelet/network/dns/dns.go appendDNSConfig
fn append_dns_config(dns: &mut DnsSpec, config: &PodDNSConfig) {
    let more = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    dns.servers = omit_duplicates(dns.servers.drain(..).chain(more(&config.nameservers)));
    dns.searches = omit_duplicates(dns.searches.drain(..).chain(more(&config.searches)));
    let mut options = BTreeMap::new();
    for option in dns.options.drain(..) {
        let (name, value) = option.split_once(':').unwrap_or((&option, ""));
        options.insert(name.to_owned(), value.to_owned());
    }
    for option in config.options.iter().flatten() {
        let name = option.name.clone().unwrap_or_default();
        options.insert(name, option.value.clone().unwrap_or_default());
    }
    let formatted = options.into_iter().map(|(name, value)| {
        if value.is_empty() {
            name
        } else {
            format!("{name}:{value}")
        }
    });
    dns.options = formatted.collect();
}

fn omit_duplicates(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut unique = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    unique
}

/// Removes entries beyond the limits of resolvers, with a warning.
// upstream: pkg/kubelet/network/dns/dns.go formDNSConfigFitsLimits
fn form_dns_config_fits_limits(dns: &mut DnsSpec, warnings: &mut Vec<DnsWarning>) {
    if dns.servers.len() > MAX_NAMESERVERS {
        dns.servers.truncate(MAX_NAMESERVERS);
        warnings.push(config_warning(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            dns.servers.join(" ")
        )));
    }
    let before = dns.searches.len();
    dns.searches.truncate(MAX_SEARCH_DOMAINS);
    dns.searches.retain(|search| search.len() <= MAX_DOMAIN_LENGTH);
    while dns.searches.join(" ").len() > MAX_SEARCH_LINE {
        dns.searches.pop();
    }
    if dns.searches.len() < before {
        warnings.push(config_warning(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            dns.searches.join(" ")
        )));
    }
}

fn config_warning(message: String) -> DnsWarning {
    DnsWarning {
        reason: "DNSConfigForming",
        message,
    }
}
