//! CertificateSigningRequest controllers: approving, signing and cleaning.
//!
//! ```text
//! request   the CertificateSigningRequest  subject   subject and usage rules of signers
//! approver  approves what nodes may have   signer    signs     cleaner   deletes
//! serving   approves what nodes may serve with      join     what a join token may have approved
//! serving_names   what no node may serve under
//! ```

mod approver;
mod cleaner;
mod join;
#[cfg(test)]
mod join_tests;
mod request;
mod serving;
mod serving_names;
mod signer;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    approver::make as make_approver, cleaner::make as make_cleaner, serving::make as make_serving_approver,
    signer::make as make_signer,
};
pub use self::{
    join::{JOIN_NODE_NAME_KEY, JOIN_USE_LIMIT_KEY, JOIN_USES_KEY, join_approver_roles},
    serving::roles as serving_approver_roles,
};
