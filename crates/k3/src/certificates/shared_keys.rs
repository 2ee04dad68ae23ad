//! The keys that all servers of a cluster share, as one value: the certificate authorities and the keys of tokens.
//!
//! The value is read and written as a whole under the lock of the directory. A directory records the last shared value, so
//! that a change is attributed to this directory or to the others. A partly written directory is detected.

use std::{fs, io, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use kubecontroller::Clock;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::{
    SubjectAltNames,
    directory::protect_tls_directory,
    rotation::{self, OLD_SIGNING_KEYS},
    server_certificates::{CertificateError, LOCK, SIGNING_KEY, ServerCertificates},
};
use crate::secret_file;

/// The file with the name of the last shared value.
pub(super) const AGREED: &str = "agreed";
/// Its content while another value is being written.
const HALF_WRITTEN: &str = "half written";

/// The shared authorities and keys, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedKeys {
    authority: String,
    authority_key: String,
    signing_key: String,
    /// The next authority during a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_authority: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_authority_key: Option<String>,
    /// Public keys of earlier signing keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_signing_keys: Option<String>,
}

/// The keys of a directory, and the record of the last shared value.
pub(crate) struct StoredKeys {
    /// `None` in a directory that no server has used yet.
    pub(crate) keys: Option<SharedKeys>,
    pub(crate) last_sync: LastSync,
}

/// The record of the last shared value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LastSync {
    /// No value was ever shared.
    Never,
    /// The shared value with this name; see [`SharedKeys::name`].
    Value(String),
    /// A shared value was not written completely.
    Partial,
}

// --- SharedKeys ---

impl SharedKeys {
    /// Reads the keys of a directory.
    pub(crate) fn read(directory: &Path) -> Result<StoredKeys, CertificateError> {
        if !directory.is_dir() {
            return Ok(StoredKeys {
                keys: None,
                last_sync: LastSync::Never,
            });
        }
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        rotation::finish_interrupted_rotation(directory)?;
        let read = |name: &str| secret_file::read(&directory.join(name));
        let last_sync = match read(AGREED)? {
            None => LastSync::Never,
            Some(text) if text.trim() == HALF_WRITTEN => LastSync::Partial,
            Some(text) => LastSync::Value(text.trim().to_owned()),
        };
        let found = (read("ca.crt")?, read("ca.key")?, read(SIGNING_KEY)?);
        let (Some(authority), Some(authority_key), Some(signing_key)) = found else {
            return Ok(StoredKeys {
                keys: None,
                last_sync,
            });
        };
        let keys = SharedKeys {
            authority,
            authority_key,
            signing_key,
            next_authority: read("ca-next.crt")?,
            next_authority_key: read("ca-next.key")?,
            old_signing_keys: read(OLD_SIGNING_KEYS)?,
        };
        Ok(StoredKeys {
            keys: Some(keys.whole()),
            last_sync,
        })
    }

    /// Generates keys in an empty directory.
    pub(crate) fn create(directory: &Path, clock: &Clock) -> Result<Self, CertificateError> {
        // The names are placeholders: the server replaces the serving certificate with one for its names.
        ServerCertificates::ensure(directory, &SubjectAltNames::new([]), clock)?;
        Self::read(directory)?
            .keys
            .ok_or_else(|| CertificateError::Nothing {
                directory: directory.to_path_buf(),
            })
    }

    /// Writes the keys to a directory and replaces existing ones. The next [`ServerCertificates::ensure`] replaces the certificates
    /// that another authority signed.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), CertificateError> {
        protect_tls_directory(directory)?;
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        secret_file::write(&directory.join(AGREED), HALF_WRITTEN)?;
        let files = [
            (SIGNING_KEY, Some(&self.signing_key)),
            (OLD_SIGNING_KEYS, self.old_signing_keys.as_ref()),
            ("ca.key", Some(&self.authority_key)),
            ("ca.crt", Some(&self.authority)),
            ("ca-next.key", self.next_authority_key.as_ref()),
            ("ca-next.crt", self.next_authority.as_ref()),
        ];
        for (name, content) in files {
            let path = directory.join(name);
            match content {
                Some(content) => secret_file::write(&path, content)?,
                None => match fs::remove_file(&path) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        return Err(CertificateError::Replace { path, source });
                    }
                    _ => {}
                },
            }
        }
        Ok(secret_file::write(&directory.join(AGREED), &self.name())?)
    }

    /// Records in a directory that this is the shared value.
    pub(crate) fn record_sync(&self, directory: &Path) -> Result<(), CertificateError> {
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        Ok(secret_file::write(&directory.join(AGREED), &self.name())?)
    }

    /// A hash that identifies the value without revealing it.
    pub(crate) fn name(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("strings serialize");
        STANDARD.encode(digest(&SHA256, &bytes))
    }

    /// Whether both have the same keys, regardless of certificates.
    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.authority_key == other.authority_key
            && self.signing_key == other.signing_key
            && self.next_authority_key == other.next_authority_key
    }

    /// Without the key of an unfinished next authority: without a certificate it was never used.
    fn whole(mut self) -> Self {
        if self.next_authority.is_none() || self.next_authority_key.is_none() {
            (self.next_authority, self.next_authority_key) = (None, None);
        }
        self
    }
}
