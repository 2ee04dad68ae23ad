//! The certificates and keys that a server makes for itself, under `<data-dir>/tls/`.
//!
//! Promises: what is there and good is kept; what is missing, of another authority, for other names or near
//! its end is made anew; the authority's key is replaced only when somebody asks for it, and in two steps, so that every
//! kubeconfig stays good until the second; two processes that start at once on one directory end up with the same files.

mod authority;
mod directory;
mod identity;
mod names;
mod rotation;
mod certificates;
mod shared_keys;
mod inventory;

pub(crate) use k3_pki::certificate_to_pem as pem;

pub(crate) use self::{
    identity::Identity,
    names::{Name, Names},
    rotation::{GENERATION, RotationTarget, finish, rotate},
    certificates::{CertificateError, Certificates},
    shared_keys::{LastSync, SharedKeys, StoredKeys},
    inventory::{CertificateInfo, list_certificates},
};
