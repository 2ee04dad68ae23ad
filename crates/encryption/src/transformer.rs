//! The providers of each resource: the first encrypts, all decrypt.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::RwLock;

use crate::{
    config::EncryptionConfiguration,
    provider::{Decrypted, EncryptError, Provider},
    resource::GroupResource,
    unreadable::ENCRYPTED,
};

/// The active encryption configuration, which can be replaced while it is in use.
pub struct Transformers {
    table: RwLock<Arc<TransformerTable>>,
}

/// One configuration.
struct TransformerTable {
    rules: HashMap<GroupResource, Vec<Arc<Provider>>>,
}

/// The state of a stored value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The stored bytes themselves.
    Plain {
        /// Whether it would be stored otherwise today.
        is_stale: bool,
    },
    /// These bytes.
    Decrypted {
        /// The object.
        value: Bytes,
        /// Whether it would be stored otherwise today.
        is_stale: bool,
    },
    /// No configured key decrypts the value.
    Failed(String),
    /// The required KMS plugin does not respond.
    Unavailable(String),
}

// --- Transformers ---

impl Transformers {
    /// As a configuration has it. Must be called inside a Tokio runtime.
    pub async fn new(configuration: &EncryptionConfiguration) -> Arc<Self> {
        let table = TransformerTable::new(configuration).await;
        Arc::new(Self {
            table: RwLock::new(Arc::new(table)),
        })
    }

    /// Uses another configuration from now on.
    pub async fn replace(&self, configuration: &EncryptionConfiguration) {
        let table = Arc::new(TransformerTable::new(configuration).await);
        *self.table.write() = table;
    }

    fn table(&self) -> Arc<TransformerTable> {
        Arc::clone(&self.table.read())
    }

    /// The value as it is stored under a key; `None` for one that is stored as it is.
    pub(crate) async fn encrypt(&self, key: &str, value: &[u8]) -> Result<Option<Bytes>, EncryptError> {
        let table = self.table();
        let providers = GroupResource::of_key(key).and_then(|resource| table.find(&resource));
        match providers.and_then(<[_]>::first).map(AsRef::as_ref) {
            None | Some(Provider::Identity) => Ok(None),
            Some(provider) => provider.encrypt(value, key).await.map(|value| Some(value.into())),
        }
    }

    /// Classifies the stored value of a key.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/value/transformer.go TransformFromStorage
    pub(crate) async fn decrypt(&self, key: &str, stored: &[u8]) -> Outcome {
        let Some(resource) = GroupResource::of_key(key) else {
            return Outcome::Plain { is_stale: false };
        };
        let table = self.table();
        let is_encrypted = stored.starts_with(ENCRYPTED);
        let Some(providers) = table.find(&resource) else {
            return if is_encrypted {
                Outcome::Failed(format!(
                    "identity transformer tried to read encrypted data: it is encrypted with {}, and the encryption \
                     configuration does not have the resource {resource}",
                    crate::unreadable::describe(&stored[ENCRYPTED.len()..])
                ))
            } else {
                Outcome::Plain { is_stale: false }
            };
        };
        if !is_encrypted {
            let is_identity = |provider: &Arc<Provider>| matches!(**provider, Provider::Identity);
            return match providers.iter().position(is_identity) {
                Some(at) => Outcome::Plain { is_stale: at > 0 },
                None => Outcome::Failed(
                    "no matching prefix found: it is not encrypted, and the encryption configuration has no identity \
                     provider for the resource"
                        .to_owned(),
                ),
            };
        }
        let mut why = None;
        for (at, provider) in providers.iter().enumerate() {
            match provider.decrypt(stored, key).await {
                Decrypted::Value { value, is_stale } => {
                    return Outcome::Decrypted {
                        value: value.into(),
                        is_stale: is_stale || at > 0,
                    };
                }
                Decrypted::Foreign => {}
                // Another provider of the same sort may have the key.
                Decrypted::Failed(reason) => why = Some(reason),
                Decrypted::Unavailable(reason) => return Outcome::Unavailable(reason),
            }
        }
        Outcome::Failed(why.unwrap_or_else(|| {
            format!(
                "no matching prefix found: it is encrypted with {}, which the encryption configuration does not have",
                crate::unreadable::describe(&stored[ENCRYPTED.len()..])
            )
        }))
    }

    /// Whether a rule has the resource of a key.
    pub(crate) fn has_rule(&self, key: &str) -> bool {
        GroupResource::of_key(key).is_some_and(|resource| self.table().find(&resource).is_some())
    }

    /// The current provider and key of a resource; `None` if no rule includes the resource.
    pub(crate) fn current_label(&self, resource: &GroupResource) -> Option<String> {
        let table = self.table();
        let provider = table.find(resource)?.first()?;
        Some(provider.label())
    }

    /// Whether a stored value looks as it would be written now.
    pub(crate) fn is_current(&self, resource: &GroupResource, stored: &[u8]) -> bool {
        let table = self.table();
        let providers = table.find(resource);
        match providers.and_then(<[_]>::first) {
            Some(provider) => provider.is_current(stored),
            None => !stored.starts_with(ENCRYPTED),
        }
    }
}

// --- TransformerTable ---

impl TransformerTable {
    async fn new(configuration: &EncryptionConfiguration) -> Self {
        let mut rules: HashMap<_, Vec<_>> = HashMap::new();
        for rule in &configuration.rules {
            let mut providers = Vec::with_capacity(rule.providers.len());
            for provider in &rule.providers {
                providers.push(Arc::new(Provider::new(provider).await));
            }
            for resource in &rule.resources {
                let all = rules.entry(resource.clone()).or_default();
                all.extend(providers.iter().cloned());
            }
        }
        Self { rules }
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go transformerFromOverrides
    fn find(&self, resource: &GroupResource) -> Option<&[Arc<Provider>]> {
        self.rules
            .get(resource)
            .or_else(|| self.rules.get(&resource.whole_group()))
            .or_else(|| self.rules.get(&GroupResource::everything()))
            .map(Vec::as_slice)
    }
}
