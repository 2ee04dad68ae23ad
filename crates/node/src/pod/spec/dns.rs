//! Where the names are resolved that a pod asks for.

use std::{collections::BTreeMap, net::IpAddr};

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig};

use super::said;
use crate::{Facts, runtime::DnsSpec};

/// How many name servers resolvers ask.
const SERVERS: usize = 3;
/// How many suffixes resolvers try.
const SEARCHES: usize = 32;
/// How long all suffixes may be together.
const SEARCH_LINE: usize = 2048;
/// How long one may be: some resolvers abort on a longer one.
const DOMAIN: usize = 253;

/// Something a user should know of how a pod was made; an event of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// Whose name servers a pod uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Cluster,
    Machine,
    Own,
}

/// What users should know of the names a pod will resolve. To be told when its sandbox is made.
pub fn notes(pod: &Pod, facts: &Facts) -> Vec<Note> {
    resolve(pod, facts).1
}

/// The resolver of a pod.
pub(super) fn dns(pod: &Pod, facts: &Facts) -> DnsSpec {
    resolve(pod, facts).0
}

fn resolve(pod: &Pod, facts: &Facts) -> (DnsSpec, Vec<Note>) {
    let mut notes = Vec::new();
    let machine = facts.machine.resolv_conf.as_deref();
    let mut dns = machine.map(parse).unwrap_or_default();
    let mut whose = whose(pod);
    if whose == Whose::Cluster && facts.cluster_dns.is_empty() {
        let why = "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
                   Falling back to \"Default\" policy.";
        notes.push(Note {
            reason: "MissingClusterDNS",
            message: format!("pod: \"{}\". {why}", said(pod)),
        });
        whose = Whose::Machine;
    }
    match whose {
        Whose::Own => dns = DnsSpec::default(),
        Whose::Cluster => {
            dns.servers = facts.cluster_dns.iter().map(ToString::to_string).collect();
            dns.searches = cluster_searches(pod, &facts.cluster_domain, dns.searches);
            dns.options = vec!["ndots:5".to_owned()];
        }
        Whose::Machine if machine.is_none() => {
            dns.servers = loopback(&facts.addresses);
            dns.searches = vec![".".to_owned()];
        }
        Whose::Machine => {}
    }
    if let Some(config) = pod.spec.as_ref().and_then(|spec| spec.dns_config.as_ref()) {
        append(&mut dns, config);
    }
    fit(&mut dns, &mut notes);
    (dns, notes)
}

fn whose(pod: &Pod) -> Whose {
    let spec = pod.spec.as_ref();
    let host_network = spec.and_then(|spec| spec.host_network) == Some(true);
    match spec.and_then(|spec| spec.dns_policy.as_deref()) {
        Some("None") => Whose::Own,
        Some("Default") => Whose::Machine,
        Some("ClusterFirst") if host_network => Whose::Machine,
        _ => Whose::Cluster,
    }
}

/// What a `resolv.conf` says.
fn parse(text: &str) -> DnsSpec {
    let mut dns = DnsSpec::default();
    let mut options = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            // The last line counts.
            Some("search") => {
                let searches = words.filter(|word| *word != ".");
                dns.searches = searches
                    .map(|word| word.strip_suffix('.').unwrap_or(word).to_owned())
                    .collect();
            }
            Some("options") => {
                for option in words {
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

fn cluster_searches(pod: &Pod, domain: &str, machine: Vec<String>) -> Vec<String> {
    if domain.is_empty() {
        return machine;
    }
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let own = [
        format!("{namespace}.svc.{domain}"),
        format!("svc.{domain}"),
        domain.to_owned(),
    ];
    once_each(own.into_iter().chain(machine))
}

/// Resolvers that are told of no server ask the machine they are on.
fn loopback(addresses: &[IpAddr]) -> Vec<String> {
    let of = |address: &IpAddr| if address.is_ipv6() { "::1" } else { "127.0.0.1" };
    let mut servers: Vec<_> = addresses.iter().map(|address| of(address).to_owned()).collect();
    if servers.is_empty() {
        servers.push("127.0.0.1".to_owned());
    }
    servers
}

fn append(dns: &mut DnsSpec, config: &PodDNSConfig) {
    let more = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    dns.servers = once_each(dns.servers.drain(..).chain(more(&config.nameservers)));
    dns.searches = once_each(dns.searches.drain(..).chain(more(&config.searches)));
    let mut options = BTreeMap::new();
    for option in dns.options.drain(..) {
        let (name, value) = option.split_once(':').unwrap_or((&option, ""));
        options.insert(name.to_owned(), value.to_owned());
    }
    for option in config.options.iter().flatten() {
        let name = option.name.clone().unwrap_or_default();
        options.insert(name, option.value.clone().unwrap_or_default());
    }
    let written = options.into_iter().map(|(name, value)| {
        if value.is_empty() {
            name
        } else {
            format!("{name}:{value}")
        }
    });
    dns.options = written.collect();
}

fn once_each(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// What resolvers would leave out or trip over is left out here, and told.
fn fit(dns: &mut DnsSpec, notes: &mut Vec<Note>) {
    if dns.servers.len() > SERVERS {
        dns.servers.truncate(SERVERS);
        notes.push(forming(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            dns.servers.join(" ")
        )));
    }
    let before = dns.searches.len();
    dns.searches.truncate(SEARCHES);
    dns.searches.retain(|search| search.len() <= DOMAIN);
    while dns.searches.join(" ").len() > SEARCH_LINE {
        dns.searches.pop();
    }
    if dns.searches.len() < before {
        notes.push(forming(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            dns.searches.join(" ")
        )));
    }
}

fn forming(message: String) -> Note {
    Note {
        reason: "DNSConfigForming",
        message,
    }
}
