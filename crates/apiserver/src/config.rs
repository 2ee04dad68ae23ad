//! What a server is told when it starts.

use std::net::IpAddr;

use k3_api::name::Subnet;

use crate::authn::TokenFile;

/// The settings of a server.
#[derive(Debug)]
pub struct Config {
    /// Users by their static tokens.
    pub tokens: TokenFile,
    /// Whether requests without credentials are taken as `system:anonymous`.
    pub anonymous: bool,
    /// Where services get their addresses from.
    pub service_range: Subnet,
    /// Who service-account tokens are issued by: a URL.
    pub issuer: String,
    /// The key service-account tokens are signed with: ECDSA P-256, PKCS#8 DER.
    pub signing_key: Vec<u8>,
    /// Where clients in the cluster reach this server.
    pub advertise: (IpAddr, u16),
    /// Whether who names an owner must be allowed to delete the dependent, and to set finalizers on an owner that is held up:
    /// the plugin `OwnerReferencesPermissionEnforcement`.
    pub guard_owners: bool,
}
