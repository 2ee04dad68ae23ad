//! Authentication: one authenticator per file.
//!
//! ```text
//! authenticator    tries each authentication method in turn
//!   x509           client certificates
//!   bearer         bearer tokens in headers
//!   tokens         tries each token authenticator in turn
//!     token_file         static tokens from a CSV file; `csv` parses it
//!     service_account    tokens signed by this server; `key_ring` and `keys` hold the keys, `jwt` parses them
//!     legacy_token       service-account tokens in secrets
//!     bootstrap_token    tokens for joining nodes
//!     ephemeral_token    short-lived tokens for people
//!   localhost      requests from this machine, where enabled
//!   identity       well-known users and groups
//! kubectl          restrictions on kubectl
//! lookup           the objects that tokens depend on; `token_cache` recently verified tokens
//! ```
//!
//! Promise: an authenticated user has the groups of its authentication method: `system:authenticated`, or for the anonymous user
//! `system:unauthenticated`.

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
        AuthenticatedUser, AuthenticationMethod, Authenticator, ConnectionPeer, Credentials,
        TokenReviewResult,
    },
    identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, anonymous, authenticated},
    keys::Signer,
    kubectl::is_kubectl_rejection,
    x509::ClientCertificate,
};
