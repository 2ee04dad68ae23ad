//! The stored protobuf message of an encrypted value, and its validation.

use std::collections::BTreeMap;

use prost::Message;

/// The plaintext of `encrypted_dek_source` is an AES-GCM key.
pub(super) const AES_GCM_KEY: i32 = 0;
/// The plaintext of `encrypted_dek_source` is a seed: keys are derived of it with HKDF, with the first 32 bytes of the data.
pub(super) const HKDF_SEED: i32 = 1;

const MAX_KEY_ID: usize = 1024;
const MAX_DEK_SOURCE: usize = 1024;
const MAX_ANNOTATIONS: usize = 32 * 1024;

/// A value that was encrypted with a DEK.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub(super) encrypted_dek_source_type: i32,
}

/// Why a stored value, or what a plugin answered, is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ObjectError {
    #[error("the stored data is not an encrypted object")]
    NotAnObject,
    #[error("encrypted data is empty")]
    NoData,
    #[error("unknown encryptedDEKSourceType: {0}")]
    UnknownSourceType(i32),
    #[error("encrypted DEK source is empty")]
    NoDekSource,
    #[error("encrypted DEK source is {0} bytes, which exceeds the max size of {max}", max = MAX_DEK_SOURCE)]
    DekSourceTooLong(usize),
    #[error("keyID is empty")]
    NoKeyId,
    #[error("keyID is {0} bytes, which exceeds the max size of {max}", max = MAX_KEY_ID)]
    KeyIdTooLong(usize),
    #[error("total size of annotations is {0}, which exceeds the max size of {max}", max = MAX_ANNOTATIONS)]
    AnnotationsTooLong(usize),
}

/// What identifies a DEK: all fields but the data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DekSource {
    pub(super) key_id: String,
    pub(super) encrypted: Vec<u8>,
    pub(super) annotations: BTreeMap<String, Vec<u8>>,
    pub(super) source_type: i32,
}

// --- EncryptedObject ---

impl EncryptedObject {
    /// Decodes and validates a stored value.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ObjectError> {
        let object = Self::decode(bytes).map_err(|_| ObjectError::NotAnObject)?;
        if object.encrypted_data.is_empty() {
            return Err(ObjectError::NoData);
        }
        object.source().validate()?;
        Ok(object)
    }

    pub(super) fn source(&self) -> DekSource {
        DekSource {
            key_id: self.key_id.clone(),
            encrypted: self.encrypted_dek_source.clone(),
            annotations: self.annotations.clone(),
            source_type: self.encrypted_dek_source_type,
        }
    }
}

// --- DekSource ---

impl DekSource {
    /// A value that was encrypted with this DEK, as it is stored.
    pub(super) fn wrap(&self, encrypted_data: Vec<u8>) -> Vec<u8> {
        let object = EncryptedObject {
            encrypted_data,
            key_id: self.key_id.clone(),
            encrypted_dek_source: self.encrypted.clone(),
            annotations: self.annotations.clone(),
            encrypted_dek_source_type: self.source_type,
        };
        object.encode_to_vec()
    }

    // upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/envelope.go ValidateEncryptedObject
    pub(super) fn validate(&self) -> Result<(), ObjectError> {
        if ![AES_GCM_KEY, HKDF_SEED].contains(&self.source_type) {
            return Err(ObjectError::UnknownSourceType(self.source_type));
        }
        let length = self.encrypted.len();
        if length == 0 {
            return Err(ObjectError::NoDekSource);
        }
        if length > MAX_DEK_SOURCE {
            return Err(ObjectError::DekSourceTooLong(length));
        }
        validate_key_id(&self.key_id)?;
        let annotations = self.annotations.iter();
        let length: usize = annotations.map(|(key, value)| key.len() + value.len()).sum();
        if length > MAX_ANNOTATIONS {
            return Err(ObjectError::AnnotationsTooLong(length));
        }
        Ok(())
    }
}

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/envelope/kmsv2/envelope.go ValidateKeyID
pub(super) fn validate_key_id(key_id: &str) -> Result<(), ObjectError> {
    match key_id.len() {
        0 => Err(ObjectError::NoKeyId),
        length if length > MAX_KEY_ID => Err(ObjectError::KeyIdTooLong(length)),
        _ => Ok(()),
    }
}
