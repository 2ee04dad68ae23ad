//! KMS v2: a data encryption key ("DEK") per process, which a plugin encrypts with a key that it keeps.
//!
//! ```text
//! client      the calls of the plugin over its socket
//! object      the stored message: the encrypted value and the encrypted DEK
//! dek         a DEK: a key, or a seed of which a key is derived for each value
//! provider    the current DEK, when it is replaced, and DEKs of the past
//! ```

mod client;
mod dek;
mod object;
mod provider;

pub(crate) use self::provider::KmsProvider;
