//! The two versions of the Internet Protocol.

use crate::name;

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

/// Which families services can have addresses of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    /// The one that a service gets which asks for none.
    pub primary: Family,
    /// Whether there are addresses of the other one too.
    pub dual: bool,
}

// --- Family ---

impl Family {
    /// What services call it.
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// The family of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        }
    }

    /// The family of an address.
    pub fn of(address: &str) -> Option<Self> {
        let address = name::parse_ip_sloppy(address)?;
        Some(if address.is_ipv4() { Family::V4 } else { Family::V6 })
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }
}

// --- Ranges ---

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            primary: Family::V4,
            dual: false,
        }
    }
}

impl Ranges {
    /// Whether there are addresses of a family.
    pub fn have(self, family: Family) -> bool {
        self.dual || self.primary == family
    }
}
