//! The names in the serving certificate.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

use rustls::pki_types::ServerName;

/// Names under which clients on the machine or in the cluster reach the server.
const ALWAYS: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// DNS names and IP addresses, sorted and unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubjectAltNames(BTreeSet<String>);

/// A DNS name or IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubjectAltName(String);

// --- SubjectAltNames ---

impl SubjectAltNames {
    /// The fixed names and `addresses`, except for the unspecified address.
    pub(crate) fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut names: BTreeSet<_> = ALWAYS.map(str::to_owned).into();
        let addresses = addresses.into_iter().filter(|address| !address.is_unspecified());
        names.extend(addresses.map(|address| address.to_string()));
        Self(names)
    }

    /// The names in a certificate.
    pub(super) fn from_hosts(names: &[String]) -> Self {
        Self(names.iter().cloned().collect())
    }

    pub(crate) fn extend(&mut self, names: impl IntoIterator<Item = SubjectAltName>) {
        self.0.extend(names.into_iter().map(|name| name.0));
    }

    /// The DNS names, including wildcards.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let is_host = |name: &&String| name.parse::<IpAddr>().is_err();
        self.0.iter().filter(is_host).cloned().collect()
    }

    /// The IP addresses.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.0.iter().filter_map(|name| name.parse().ok()).collect()
    }

    pub(super) fn to_vec(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    /// Whether a certificate with `names` matches exactly.
    pub(super) fn matches(&self, names: &[String]) -> bool {
        self.0 == names.iter().cloned().collect()
    }
}

// --- SubjectAltName ---

impl fmt::Display for SubjectAltName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for SubjectAltName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.to_string()));
        }
        let without_wildcard = text.strip_prefix("*.").unwrap_or(text);
        match ServerName::try_from(without_wildcard) {
            Ok(ServerName::DnsName(_)) => Ok(Self(text.to_ascii_lowercase())),
            _ => Err("neither a DNS name nor an IP address"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_fixed_and_added_names_once() {
        let addresses = ["0.0.0.0", "192.0.2.7", "127.0.0.1", "10.96.0.1"];
        let mut names = SubjectAltNames::new(addresses.map(|address| address.parse().unwrap()));
        names.extend(
            ["k3.example.com", "K3.example.com", "*.example.com", "::0001"].map(|name| name.parse().unwrap()),
        );
        let mut expected = ALWAYS.to_vec();
        expected.extend(["*.example.com", "10.96.0.1", "192.0.2.7", "k3.example.com"]);
        expected.sort_unstable();
        assert_eq!(names.to_vec(), expected);
        let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
        let addresses: Vec<_> = names.addresses().iter().map(ToString::to_string).collect();
        assert!(addresses.iter().all(|address| expected.contains(&&**address)));
        assert_eq!(
            addresses.len(),
            expected.iter().filter(|name| is_address(name)).count()
        );
        expected.retain(|name| !is_address(name));
        assert_eq!(names.hosts(), expected);
    }

    #[test]
    fn rejects_invalid_names() {
        for text in ["", "a b", "https://k3", "k3:6443", "-a"] {
            assert!(text.parse::<SubjectAltName>().is_err(), "{text}");
        }
    }
}
