//! The certificate that the node's own API is served with.
//!
//! Promises: there always is one: until the cluster has signed one, or while none that it signed is valid, one that the agent
//! signed itself; the key never leaves the machine, and only its owner can read its file; a certificate is replaced well
//! before its end, and when the addresses of the node are no longer those that it names.

mod keeper;
mod pair;
mod request;

pub(super) use self::keeper::{CertificateKeeper, Parts};
pub use self::pair::Resolver;
