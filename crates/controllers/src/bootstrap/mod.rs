//! Tokens with which nodes come into a cluster: what the cluster tells of itself is signed with each, and they are deleted when
//! their time is over.
//!
//! Both are off unless they are asked for, as upstream's are.

mod cleaner;
mod signature;
mod signer;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use self::{cleaner::make as make_cleaner, signer::make as make_signer};
