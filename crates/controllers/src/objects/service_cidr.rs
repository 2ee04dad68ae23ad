//! ServiceCIDRs and IPAddresses, as controllers read them.

use k3_workloads::Condition;
use serde::{Deserialize, de::IgnoredAny};

use super::Projection;

/// Networks that services get their addresses from.
pub type ServiceCidr = Projection<ServiceCidrSpec, ServiceCidrStatus>;

/// An allocated address; its name is the address.
pub type IpAddress = Projection<IgnoredAny>;

/// The networks.
// upstream: staging/src/k8s.io/api/networking/v1/types.go ServiceCIDRSpec
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// One, or one of each address type.
    pub cidrs: Vec<Box<str>>,
}

/// Whether addresses are given out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrStatus {
    /// The conditions.
    pub conditions: Vec<Condition>,
}
