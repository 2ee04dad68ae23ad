//! The certificates and keys that a server makes for itself, under `<data-dir>/tls/`.
//!
//! Promises: what is there and good is kept; what is missing, of another authority, for other names or near
//! its end is made anew; the authority's key is replaced only when somebody asks for it, and in two steps, so that every
//! kubeconfig stays good until the second; two processes that start at once on one folder end up with the same files.

mod authority;
mod directory;
mod identity;
mod names;
mod rotation;
mod set;
mod shared;
mod survey;

pub(crate) use k3_pki::certificate_to_pem as pem;

pub(crate) use self::{
    identity::Identity,
    names::{Name, Names},
    rotation::{GENERATION, Part, finish, rotate},
    set::{CertificateError, Certificates},
    shared::{Kept, Memory, SharedKeys},
    survey::{Held, survey},
};
