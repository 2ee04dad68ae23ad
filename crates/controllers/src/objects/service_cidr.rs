//! The networks that services get their addresses from, and these addresses.

use serde::{Deserialize, de::IgnoredAny};

use super::{Condition, Projection};

/// Networks that services get their addresses from.
pub type ServiceCidr = Projection<ServiceCidrSpec, ServiceCidrStatus>;

/// An address that somebody has; its name is the address.
pub type IpAddress = Projection<IgnoredAny>;

/// The networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// One, or one of each family.
    pub cidrs: Vec<Box<str>>,
}

/// Whether addresses are given out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
}
