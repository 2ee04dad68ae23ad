//! How nodes come into a cluster.
//!
//! Promises: a node trusts no server but that of the authority its token names; it shows the token to nobody else; the key of
//! its certificate never leaves its machine; once it has a certificate, it needs neither token nor administrator again.

mod authority;
mod identity;
mod node;
mod token;

use self::identity::NodeIdentity;
pub(crate) use self::{
    node::{Way, run},
    token::{JoinToken, Pin},
};
