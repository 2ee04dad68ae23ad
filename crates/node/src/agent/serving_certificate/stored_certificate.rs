//! The file with the serving certificate. Blocks on file I/O.

use std::{
    fs,
    io::{self, Write},
    path::Path,
};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    key_pair::{CertificateNames, certified_key},
    rotation::CertificateValidity,
};
use crate::agent::AgentConfig;

/// In the directory `pki` of the data directory.
const FILE: &str = "serving.json";

/// Content of the certificate file.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredCertificate {
    /// CA certificates of the cluster when the certificate was signed. After a change of CA a new certificate is requested.
    #[serde(default)]
    pub(super) authority: String,
    pub(super) names: Vec<String>,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Reads the stored certificate. Its validity is `None` if the CA has changed since: it is served until a new one is signed.
pub(super) fn read_stored(
    directory: &Path,
    config: &AgentConfig,
) -> Option<(rustls::sign::CertifiedKey, Option<CertificateValidity>)> {
    let path = directory.join(FILE);
    let file = fs::File::open(&path).ok()?;
    k3_files::protect_file(&path, &file).ok()?;
    let stored: StoredCertificate = serde_json::from_reader(io::BufReader::new(file)).ok()?;
    let pair = certified_key(stored.certificate.as_bytes(), stored.key.as_bytes()).ok()?;
    let names = CertificateNames {
        node: config.node_name.clone(),
        names: stored.names,
    };
    let from = stored.from;
    let to = stored.to;
    let is_same_authority = stored.authority == config.authority;
    Some((
        pair,
        is_same_authority.then_some(CertificateValidity { names, from, to }),
    ))
}

/// Writes the file atomically, readable only by its owner.
pub(super) fn write_stored(directory: &Path, stored: &StoredCertificate) -> io::Result<()> {
    k3_files::create_directory(directory)?;
    let temporary = directory.join(format!("{FILE}.new"));
    // A file that a crash left behind may have other permissions.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = k3_files::open(&temporary, fs::OpenOptions::new().write(true).create_new(true))?;
    file.write_all(&serde_json::to_vec(stored)?)?;
    file.sync_all()?;
    fs::rename(temporary, directory.join(FILE))
}
