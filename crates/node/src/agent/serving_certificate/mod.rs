//! The serving certificate of the kubelet API.
//!
//! ```text
//! manager   requests, stores and rotates the certificate
//! rotation  when a certificate is rotated
//! stored_certificate  its file
//! key_pair  certificates with their keys, and the one in use
//! ```
//!
//! Promises: there always is a certificate. Until the cluster has signed one it is self-signed. The private key never leaves the
//! machine, and only its owner can read its file. A certificate is rotated well before it expires, and when the addresses of the
//! node change.

mod key_pair;
mod manager;
mod rotation;
mod stored_certificate;

pub use self::key_pair::ServingCertResolver;
pub(super) use self::manager::{ServingCertificateDependencies, ServingCertificateManager};
