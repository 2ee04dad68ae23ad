//! A provider: the prefix of its values, its keys, and how it encrypts.

mod cbc;
mod gcm;
mod secretbox;

use std::sync::Arc;

use zeroize::Zeroizing;

pub(crate) use self::gcm::Gcm;
use self::{cbc::Cbc, secretbox::Secretbox};
use crate::{
    config::{NamedKey, ProviderConfiguration},
    kms::KmsProvider,
    unreadable::ENCRYPTED,
};

const SECRETBOX: &str = "k8s:enc:secretbox:v1:";
const AES_GCM: &str = "k8s:enc:aesgcm:v1:";
const AES_CBC: &str = "k8s:enc:aescbc:v1:";

/// How values are encrypted and decrypted.
pub(crate) enum Provider {
    /// Not at all.
    Identity,
    /// With keys of the configuration.
    Local(LocalProvider),
    /// With keys that a plugin encrypts.
    Kms(Arc<KmsProvider>),
}

/// A provider with local keys; the first key encrypts.
pub(crate) struct LocalProvider {
    prefix: &'static str,
    keys: Vec<(String, Cipher)>,
}

enum Cipher {
    Secretbox(Secretbox),
    Gcm(Gcm),
    Cbc(Cbc),
}

/// What became of a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decrypted {
    /// It is this.
    Value {
        value: Vec<u8>,
        /// Whether it would be encrypted otherwise today.
        is_stale: bool,
    },
    /// It is not of this provider.
    Foreign,
    /// No configured key decrypts the value.
    Failed(String),
    /// The required KMS plugin does not respond.
    Unavailable(String),
}

/// Why a value could not be encrypted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EncryptError {
    #[error("the system gives no random bytes")]
    Random,
    #[error("the cipher refuses the value")]
    Cipher,
    #[error("{0}")]
    Kms(String),
}

/// A value that does not decrypt with a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CipherError {
    #[error("the stored data was shorter than the required size")]
    Short,
    #[error("the stored data is not a multiple of the block size")]
    BlockSize,
    #[error("the key is wrong, or the stored data was changed or moved from another object")]
    Wrong,
}

// --- Provider ---

impl Provider {
    /// The provider of a configuration. Must be called inside a Tokio runtime if it is a plugin.
    pub(crate) async fn new(configuration: &ProviderConfiguration) -> Self {
        match configuration {
            ProviderConfiguration::Identity => Self::Identity,
            ProviderConfiguration::Secretbox(keys) => {
                Self::local(SECRETBOX, keys, |key| Cipher::Secretbox(Secretbox::new(key)))
            }
            ProviderConfiguration::AesGcm(keys) => {
                Self::local(AES_GCM, keys, |key| Cipher::Gcm(Gcm::new(key)))
            }
            ProviderConfiguration::AesCbc(keys) => {
                Self::local(AES_CBC, keys, |key| Cipher::Cbc(Cbc::new(key)))
            }
            ProviderConfiguration::Kms(kms) => Self::Kms(KmsProvider::start(kms).await),
        }
    }

    fn local(prefix: &'static str, keys: &[NamedKey], cipher: fn(&[u8]) -> Cipher) -> Self {
        let keys = keys.iter();
        Self::Local(LocalProvider {
            prefix,
            keys: keys.map(|key| (key.name.clone(), cipher(&key.secret))).collect(),
        })
    }

    /// Encrypts a value; `path` is its key in the store.
    pub(crate) async fn encrypt(&self, value: &[u8], path: &str) -> Result<Vec<u8>, EncryptError> {
        match self {
            Self::Identity => Ok(value.to_vec()),
            Self::Local(local) => local.encrypt(value, path),
            Self::Kms(kms) => kms.encrypt(value, path).await,
        }
    }

    /// Decrypts a value; `path` is its key in the store.
    pub(crate) async fn decrypt(&self, stored: &[u8], path: &str) -> Decrypted {
        match self {
            // A value that is not encrypted needs no provider.
            Self::Identity => Decrypted::Foreign,
            Self::Local(local) => local.decrypt(stored, path),
            Self::Kms(kms) => kms.decrypt(stored, path).await,
        }
    }

    /// Whether a stored value looks as this provider would write it now: encrypted with its first key.
    pub(crate) fn is_current(&self, stored: &[u8]) -> bool {
        match self {
            Self::Identity => !stored.starts_with(ENCRYPTED),
            Self::Local(local) => stored.starts_with(&local.current_prefix()),
            Self::Kms(kms) => kms.is_stored_stale(stored) == Some(false),
        }
    }

    /// What values that it encrypts now are called in a summary.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Identity => "identity".to_owned(),
            Self::Local(local) => local.label(),
            Self::Kms(kms) => kms.label(),
        }
    }
}

// --- LocalProvider ---

impl LocalProvider {
    fn encrypt(&self, value: &[u8], path: &str) -> Result<Vec<u8>, EncryptError> {
        let (name, cipher) = self.keys.first().expect("a valid configuration has a key");
        let encrypted = match cipher {
            Cipher::Secretbox(secretbox) => secretbox.encrypt(value)?,
            Cipher::Gcm(gcm) => gcm.encrypt(value, path.as_bytes())?,
            Cipher::Cbc(cbc) => cbc.encrypt(value)?,
        };
        Ok([self.prefix.as_bytes(), name.as_bytes(), b":", &encrypted].concat())
    }

    fn decrypt(&self, stored: &[u8], path: &str) -> Decrypted {
        let Some(rest) = stored.strip_prefix(self.prefix.as_bytes()) else {
            return Decrypted::Foreign;
        };
        let mut why = None;
        for (at, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(data) = rest
                .strip_prefix(name.as_bytes())
                .and_then(|rest| rest.strip_prefix(b":"))
            else {
                continue;
            };
            let decrypted = match cipher {
                Cipher::Secretbox(secretbox) => secretbox.decrypt(data),
                Cipher::Gcm(gcm) => gcm.decrypt(data, path.as_bytes()),
                Cipher::Cbc(cbc) => cbc.decrypt(data),
            };
            match decrypted {
                Ok(value) => {
                    return Decrypted::Value {
                        value,
                        is_stale: at > 0,
                    };
                }
                Err(error) => why = Some(format!("provider {}, key {name}: {error}", self.name())),
            }
        }
        Decrypted::Failed(why.unwrap_or_else(|| {
            let stored = crate::unreadable::describe(stored.strip_prefix(ENCRYPTED).unwrap_or_default());
            format!("no matching key was found: it is encrypted with {stored}")
        }))
    }

    fn name(&self) -> &'static str {
        let name = self.prefix.strip_prefix("k8s:enc:").unwrap_or(self.prefix);
        name.split(':').next().unwrap_or(name)
    }

    fn current_prefix(&self) -> Vec<u8> {
        let key = self.keys.first().map_or("", |(name, _)| name);
        format!("{}{key}:", self.prefix).into_bytes()
    }

    fn label(&self) -> String {
        let key = self.keys.first().map_or("", |(name, _)| name);
        format!("{}:{key}", self.name())
    }
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], EncryptError> {
    let mut bytes = [0; N];
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut bytes).map_err(|_| EncryptError::Random)?;
    Ok(bytes)
}

/// Random bytes that are wiped when they are dropped.
pub(crate) fn random_secret<const N: usize>() -> Result<Zeroizing<[u8; N]>, EncryptError> {
    random().map(Zeroizing::new)
}

#[cfg(test)]
mod tests;
