//! The `EncryptionConfiguration` file: which resources are encrypted with which providers.

mod exposure;
mod reader;
mod validate;

use std::{fmt, io, path::PathBuf, time::Duration};

use zeroize::Zeroizing;

use crate::resource::GroupResource;

/// An `EncryptionConfiguration` of `apiserver.config.k8s.io/v1` that is valid.
#[derive(Debug)]
pub struct EncryptionConfiguration {
    pub(crate) rules: Vec<ResourceRule>,
}

/// Some resources and their providers, the one that encrypts first.
#[derive(Debug)]
pub(crate) struct ResourceRule {
    pub(crate) resources: Vec<GroupResource>,
    pub(crate) providers: Vec<ProviderConfiguration>,
}

/// How values are encrypted.
#[derive(Debug)]
pub(crate) enum ProviderConfiguration {
    Identity,
    Secretbox(Vec<NamedKey>),
    AesGcm(Vec<NamedKey>),
    AesCbc(Vec<NamedKey>),
    Kms(KmsConfiguration),
}

/// A key and its name, which is stored with encrypted values.
pub(crate) struct NamedKey {
    pub(crate) name: String,
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

/// A KMS v2 plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KmsConfiguration {
    pub(crate) name: String,
    pub(crate) socket: PathBuf,
    pub(crate) timeout: Duration,
}

/// Why a configuration cannot be used. Secrets are not part of the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is empty.
    #[error("{} is empty", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The text is not YAML.
    #[error("the text is not valid YAML or JSON ({0})")]
    Syntax(String),
    /// The text is something else.
    #[error("{0}; expected kind EncryptionConfiguration of apiVersion apiserver.config.k8s.io/v1")]
    Kind(String),
    /// Fields are missing or invalid.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

// --- EncryptionConfiguration ---

impl EncryptionConfiguration {
    /// Reads and validates a text in YAML or JSON.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        reader::read(text)
    }

    /// Reads and validates a file.
    pub fn load(path: &std::path::Path) -> Result<Self, ConfigError> {
        exposure::warn(path);
        let text = std::fs::read(path).map(Zeroizing::new);
        let text = text.map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        if text.is_empty() {
            return Err(ConfigError::Empty {
                path: path.to_owned(),
            });
        }
        Self::parse(&text)
    }
}

// --- NamedKey ---

impl fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedKey({})", self.name)
    }
}

#[cfg(test)]
mod tests;
