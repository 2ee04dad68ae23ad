//! Who is asking: an authenticator a file.
//!
//! ```text
//! authenticator    each way of proving who one is, in turn
//!   x509           client certificates
//!   bearer         the token that a request bears
//!   tokens         each sort of tokens, in turn
//!     token_file         static ones from a file; `records` reads it
//!     service_account    those that this server signs; `key_ring` and `keys` have the keys, `jwt` the form
//!     legacy_token       the same, kept in secrets
//!     bootstrap_token    for machines that join
//!     ephemeral_token    for people, for a while
//!   localhost      whoever is on this machine, if that is asked for
//!   identity       nobody, and the groups that everybody is in
//! kubectl          what is asked of one program
//! lookup           the objects that tokens depend on; `remembered` what was verified a moment ago
//! ```
//!
//! Promise: a user that the authenticator gives has all groups that come with the way it was found:
//! `system:authenticated`, or for the anonymous one `system:unauthenticated`.

mod authenticator;
mod bearer;
mod bootstrap_token;
mod csv;
mod ephemeral_token;
mod identity;
mod jwt;
mod key_ring;
mod keys;
mod kubectl;
mod legacy_token;
mod localhost;
mod lookup;
mod service_account;
#[cfg(test)]
mod tests;
mod token_cache;
mod token_file;
mod tokens;
mod x509;

pub use self::{
    authenticator::{Anonymous, Authentication},
    ephemeral_token::{BadEphemeralToken, EphemeralToken},
    keys::{BadPublicKey, BadSigningKey, PublicKey},
    kubectl::KubectlRule,
    token_file::{TokenFile, TokenFileError, TokenFileProblem},
};
pub(crate) use self::{
    authenticator::{
        AuthenticatedUser, AuthenticationMethod, Authenticator, Credentials, Peer, TokenReviewResult,
    },
    identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, anonymous, authenticated},
    keys::Signer,
    kubectl::is_kubectl_refusal,
    x509::ClientCertificate,
};
