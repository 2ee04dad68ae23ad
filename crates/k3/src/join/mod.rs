//! How nodes join a cluster.
//!
//! Promises: a node trusts no server but that of the authority its token names; it sends the token to no other server; the key of
//! its certificate never leaves its machine; once it has a certificate, it needs neither token nor administrator again, also when
//! the cluster gets another authority or other servers while it runs.

mod authority;
mod identity;
mod node;
mod renewal;
mod servers;
mod token;

use self::identity::NodeIdentity;
pub(crate) use self::{
    node::{JoinMethod, run},
    servers::Servers,
    token::{JoinToken, Pin},
};
