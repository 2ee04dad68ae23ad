//! How nodes join a cluster.
//!
//! A node trusts only the server whose authority its token names, and sends the token to no other server. The private key never
//! leaves the machine. A node with a certificate needs neither token nor administrator again, even when the cluster changes its
//! authority or its servers while the node runs.

mod authority;
mod identity;
mod node;
mod renewal;
mod servers;
mod token;

use self::identity::NodeIdentity;
pub(crate) use self::{
    node::{JoinMethod, run},
    servers::ServerList,
    token::{CertificatePin, JoinToken},
};
