//! The certificates and keys that a server makes for itself, under `<data-dir>/tls/`.
//!
//! Promises: what is there and good is kept; what is missing, of another authority, for other names or near
//! its end is made anew; the authority's key is never replaced, so every kubeconfig ever written stays good
//! for its time; two processes that start at once on one folder end up with the same files.

mod authority;
mod identity;
mod names;
mod pem;
mod set;

pub(crate) use self::{
    identity::Identity,
    names::{Name, Names},
    pem::pem,
    set::{CertificateError, Certificates},
};
