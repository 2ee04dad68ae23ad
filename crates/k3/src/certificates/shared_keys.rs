//! What all servers of a cluster have in common of their directories, as one value: the authorities, and the keys of tokens.
//!
//! Promises: it is read and written whole, with the directory to oneself. A directory remembers which value it had in common with the
//! others last, so that it can be told who has changed it since; and a directory that was half written is known for one.

use std::{fs, io, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::{
    Names,
    certificates::{CertificateError, Certificates, LOCK, SIGNING_KEY},
    directory::protect_tls_directory,
    rotation::{self, OLD_SIGNING_KEYS},
};
use crate::secret_file;

/// The file that names the value which the directory had in common with the others last.
pub(super) const AGREED: &str = "agreed";
/// Its content while another value is being written.
const HALF_WRITTEN: &str = "half written";

/// What servers have in common, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedKeys {
    authority: String,
    authority_key: String,
    signing_key: String,
    /// The authority that is taking the place of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_authority: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_authority_key: Option<String>,
    /// Public keys of earlier signing keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_signing_keys: Option<String>,
}

/// What a directory has, and what it remembers.
pub(crate) struct StoredKeys {
    /// Nothing in a directory that no server has used yet.
    pub(crate) keys: Option<SharedKeys>,
    pub(crate) last_sync: LastSync,
}

/// What a directory remembers of what it had in common with the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LastSync {
    /// Nothing: it never had anything in common with others.
    Never,
    /// The value by this name; see [`SharedKeys::name`].
    Value(String),
    /// That it was to get theirs, and has not got all of it.
    Partial,
}

// --- SharedKeys ---

impl SharedKeys {
    /// What is in a directory.
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

    /// New ones, in a directory that has none.
    pub(crate) fn create(directory: &Path, clock: &dyn k3_storage::Clock) -> Result<Self, CertificateError> {
        // The names are put right when the server knows them.
        Certificates::ensure(directory, &Names::new([]), clock)?;
        Self::read(directory)?
            .keys
            .ok_or_else(|| CertificateError::Nothing {
                directory: directory.to_path_buf(),
            })
    }

    /// Puts them into a directory, in the place of what is there. What other files there are for another authority is made anew by
    /// the next [`Certificates::ensure`].
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

    /// Remembers in a directory that these are what all have in common.
    pub(crate) fn record_sync(&self, directory: &Path) -> Result<(), CertificateError> {
        let _lock = secret_file::lock(&directory.join(LOCK))?;
        Ok(secret_file::write(&directory.join(AGREED), &self.name())?)
    }

    /// A hash that identifies them without revealing them.
    pub(crate) fn name(&self) -> String {
        let bytes = serde_json::to_vec(self).expect("texts can be written");
        STANDARD.encode(digest(&SHA256, &bytes))
    }

    /// Whether they are the same but for certificates: what one signs is good for who has the other.
    pub(crate) fn has_keys_of(&self, other: &Self) -> bool {
        self.authority_key == other.authority_key
            && self.signing_key == other.signing_key
            && self.next_authority_key == other.next_authority_key
    }

    /// Without the key of an authority that an interrupted rotation has left: without a certificate it was never used.
    fn whole(mut self) -> Self {
        if self.next_authority.is_none() || self.next_authority_key.is_none() {
            (self.next_authority, self.next_authority_key) = (None, None);
        }
        self
    }
}
