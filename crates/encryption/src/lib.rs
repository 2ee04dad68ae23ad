//! Encryption at rest: values of chosen resources are encrypted before they reach a store and decrypted when they are read.
//!
//! ```text
//! config      the file: an EncryptionConfiguration of apiserver.config.k8s.io/v1, read and validated
//! resource    which resource a key of the store belongs to
//! provider    one provider of the file: its prefix, its keys, and how it encrypts
//! kms         the provider that keeps its keys in a KMS v2 plugin
//! transformer all providers of a resource: the first encrypts, all decrypt
//! store       the store that does so, over any other store
//! reload      the file is read again when it changes
//! status      which keys the stored values are encrypted with
//! ```
//!
//! Promises: stored bytes are those of kube-apiserver, with the key of the entry as additional data. A value that cannot be
//! decrypted is an error of that object alone ([`undecrypted`]), never of the store. Neither keys nor values appear in messages.

mod config;
mod kms;
mod provider;
mod reload;
mod resource;
mod status;
mod store;
mod transformer;
mod unreadable;

pub use self::{
    config::{ConfigError, EncryptionConfiguration},
    reload::Reloader,
    status::{EncryptionStatus, ResourceStatus},
    store::EncryptedStore,
    transformer::Transformers,
    unreadable::undecrypted,
};
