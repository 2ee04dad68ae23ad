//! IP families.
// upstream: pkg/registry/core/service/storage/alloc.go familyOf

use crate::name;

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The families that cluster IPs can be allocated of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceIpFamilies {
    /// The primary family, for services that request none.
    pub primary: IpFamily,
    /// Whether the cluster is dual stack.
    pub dual: bool,
}

// --- Family ---

impl IpFamily {
    /// Its name in `ipFamilies`.
    pub fn name(self) -> &'static str {
        match self {
            IpFamily::V4 => "IPv4",
            IpFamily::V6 => "IPv6",
        }
    }

    /// Parses a name of `ipFamilies`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(IpFamily::V4),
            "IPv6" => Some(IpFamily::V6),
            _ => None,
        }
    }

    /// The family of an address.
    pub fn of(address: &str) -> Option<Self> {
        let address = name::parse_ip_sloppy(address)?;
        Some(if address.is_ipv4() {
            IpFamily::V4
        } else {
            IpFamily::V6
        })
    }

    /// The other family.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            IpFamily::V4 => IpFamily::V6,
            IpFamily::V6 => IpFamily::V4,
        }
    }
}

// --- Ranges ---

impl Default for ServiceIpFamilies {
    fn default() -> Self {
        ServiceIpFamilies {
            primary: IpFamily::V4,
            dual: false,
        }
    }
}

impl ServiceIpFamilies {
    /// Whether addresses of a family can be allocated.
    pub fn have(self, family: IpFamily) -> bool {
        self.dual || self.primary == family
    }
}
