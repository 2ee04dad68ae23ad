//! Bootstrap tokens: signs the cluster-info ConfigMap with each token, and deletes expired tokens.
//!
//! Both controllers are disabled by default, as upstream's are.

mod cleaner;
mod signature;
mod signer;
#[cfg(test)]
mod tests;
mod token;

pub(crate) use self::{cleaner::make as make_cleaner, signer::make as make_signer};
