//! What all servers of a cluster have in common of their folders, as one value: the authorities, and the keys of tokens.
//!
//! Promises: it is read and written whole, with the folder to oneself. A folder remembers which value it had in common with the
//! others last, so that it can be told who has changed it since; and a folder that was half written is known for one.

use std::{fs, io, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::{
    Names,
    directory::protect_tls_directory,
    rotation::{self, OLD_SIGNING_KEYS},
    set::{CertificateError, Certificates, LOCK, SIGNING_KEY},
};
use crate::secret_file;

/// The file that names the value which the folder had in common with the others last.
pub(super) const AGREED: &str = "agreed";
/// What it says while another value is being written.
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
    /// Public keys of tokens that are believed still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_signing_keys: Option<String>,
}

/// What a folder has, and what it remembers.
pub(crate) struct Kept {
    /// Nothing in a folder that no server has used yet.
    pub(crate) keys: Option<SharedKeys>,
    pub(crate) memory: Memory,
}

/// What a folder remembers of what it had in common with the others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing: it never had anything in common with others.
    Nothing,
    /// The value by this name; see [`SharedKeys::name`].
    Value(String),
    /// That it was to get theirs, and has not got all of it.
    HalfWritten,
}

// --- SharedKeys ---

impl SharedKeys {
    /// What is in a folder.
    pub(crate) fn read(folder: &Path) -> Result<Kept, CertificateError> {
        if !folder.is_dir() {
            return Ok(Kept {
                keys: None,
                memory: Memory::Nothing,
            });
        }
        let _alone = secret_file::lock(&folder.join(LOCK))?;
        rotation::mend(folder)?;
        let read = |name: &str| secret_file::read(&folder.join(name));
        let memory = match read(AGREED)? {
            None => Memory::Nothing,
            Some(text) if text.trim() == HALF_WRITTEN => Memory::HalfWritten,
            Some(text) => Memory::Value(text.trim().to_owned()),
        };
        let found = (read("ca.crt")?, read("ca.key")?, read(SIGNING_KEY)?);
        let (Some(authority), Some(authority_key), Some(signing_key)) = found else {
            return Ok(Kept { keys: None, memory });
        };
        let keys = SharedKeys {
            authority,
            authority_key,
            signing_key,
            next_authority: read("ca-next.crt")?,
            next_authority_key: read("ca-next.key")?,
            old_signing_keys: read(OLD_SIGNING_KEYS)?,
        };
        Ok(Kept {
            keys: Some(keys.whole()),
            memory,
        })
    }

    /// New ones, in a folder that has none.
    pub(crate) fn make(folder: &Path, clock: &dyn k3_storage::Clock) -> Result<Self, CertificateError> {
        // The names are put right when the server knows them.
        Certificates::ensure(folder, &Names::new([]), clock)?;
        Self::read(folder)?.keys.ok_or_else(|| CertificateError::Nothing {
            folder: folder.to_path_buf(),
        })
    }

    /// Puts them into a folder, in the place of what is there. What other files there are for another authority is made anew by
    /// the next [`Certificates::ensure`].
    pub(crate) fn write(&self, folder: &Path) -> Result<(), CertificateError> {
        protect_tls_directory(folder)?;
        let _alone = secret_file::lock(&folder.join(LOCK))?;
        secret_file::write(&folder.join(AGREED), HALF_WRITTEN)?;
        let files = [
            (SIGNING_KEY, Some(&self.signing_key)),
            (OLD_SIGNING_KEYS, self.old_signing_keys.as_ref()),
            ("ca.key", Some(&self.authority_key)),
            ("ca.crt", Some(&self.authority)),
            ("ca-next.key", self.next_authority_key.as_ref()),
            ("ca-next.crt", self.next_authority.as_ref()),
        ];
        for (name, content) in files {
            let path = folder.join(name);
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
        Ok(secret_file::write(&folder.join(AGREED), &self.name())?)
    }

    /// Remembers in a folder that these are what all have in common.
    pub(crate) fn remember(&self, folder: &Path) -> Result<(), CertificateError> {
        let _alone = secret_file::lock(&folder.join(LOCK))?;
        Ok(secret_file::write(&folder.join(AGREED), &self.name())?)
    }

    /// A name that no others have, and that says nothing of them.
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
