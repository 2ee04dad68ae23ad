//! The certificates and keys that a server generates in `<data-dir>/tls/`.
//!
//! Valid files are kept. A certificate that is missing, expires soon, has other names or was signed by another authority is
//! replaced at the next start. The authority's key is replaced only on request and in two steps: kubeconfigs stay valid until
//! the second step. Two processes that start at once on one directory end up with the same files.

mod authority;
mod certificate_and_key;
mod directory;
mod inventory;
mod rotation;
mod server_certificates;
mod shared_keys;
mod subject_alt_names;

pub(crate) use k3_pki::certificate_to_pem as pem;

pub(crate) use self::{
    certificate_and_key::CertificateAndKey,
    inventory::{CertificateInfo, list_certificates},
    rotation::{GENERATION, RotationTarget, finish, rotate},
    server_certificates::{CertificateError, ServerCertificates},
    shared_keys::{LastSync, SharedKeys, StoredKeys},
    subject_alt_names::{SubjectAltName, SubjectAltNames},
};
