//! The certificates and keys that a server makes for itself, under `<data-dir>/tls/`.
//!
//! Promises: what is there and good is kept; what is missing, of another authority, for other names or near
//! its end is made anew; the authority's key is replaced only when somebody asks for it, and in two steps, so that every
//! kubeconfig stays good until the second; two processes that start at once on one directory end up with the same files.

mod authority;
mod certificates;
mod directory;
mod identity;
mod inventory;
mod names;
mod rotation;
mod shared_keys;

pub(crate) use k3_pki::certificate_to_pem as pem;

pub(crate) use self::{
    certificates::{CertificateError, Certificates},
    identity::Identity,
    inventory::{CertificateInfo, list_certificates},
    names::{Name, Names},
    rotation::{GENERATION, RotationTarget, finish, rotate},
    shared_keys::{LastSync, SharedKeys, StoredKeys},
};
