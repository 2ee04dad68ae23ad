//! AES-GCM with keys of 16, 24 or 32 bytes and random nonces of 12.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::{
    AesGcm, KeyInit, Nonce,
    aead::{Aead, Payload, consts::U12},
};

use super::{CipherError, EncryptError, random};

const NONCE: usize = 12;

/// A key.
pub(crate) enum Gcm {
    Aes128(Box<AesGcm<Aes128, U12>>),
    Aes192(Box<AesGcm<Aes192, U12>>),
    Aes256(Box<AesGcm<Aes256, U12>>),
}

// --- Gcm ---

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/aes/aes.go NewGCMTransformer
impl Gcm {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self::try_new(key).expect("a valid configuration has keys of 16, 24 or 32 bytes")
    }

    /// Uses an existing key; `None` if its length is invalid.
    pub(crate) fn try_new(key: &[u8]) -> Option<Self> {
        Some(match key.len() {
            16 => Self::Aes128(Box::new(AesGcm::new_from_slice(key).ok()?)),
            24 => Self::Aes192(Box::new(AesGcm::new_from_slice(key).ok()?)),
            32 => Self::Aes256(Box::new(AesGcm::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }

    /// The nonce, then the ciphertext and the tag.
    pub(crate) fn encrypt(&self, value: &[u8], additional: &[u8]) -> Result<Vec<u8>, EncryptError> {
        let nonce: [u8; NONCE] = random()?;
        let payload = Payload {
            msg: value,
            aad: additional,
        };
        let at = &Nonce::from(nonce);
        let sealed = match self {
            Self::Aes128(cipher) => cipher.encrypt(at, payload),
            Self::Aes192(cipher) => cipher.encrypt(at, payload),
            Self::Aes256(cipher) => cipher.encrypt(at, payload),
        };
        let sealed = sealed.map_err(|_| EncryptError::Cipher)?;
        Ok([&nonce[..], &sealed].concat())
    }

    pub(crate) fn decrypt(&self, data: &[u8], additional: &[u8]) -> Result<Vec<u8>, CipherError> {
        let (nonce, sealed) = data.split_first_chunk::<NONCE>().ok_or(CipherError::Short)?;
        let payload = Payload {
            msg: sealed,
            aad: additional,
        };
        let at = &Nonce::from(*nonce);
        let opened = match self {
            Self::Aes128(cipher) => cipher.decrypt(at, payload),
            Self::Aes192(cipher) => cipher.decrypt(at, payload),
            Self::Aes256(cipher) => cipher.decrypt(at, payload),
        };
        opened.map_err(|_| CipherError::Wrong)
    }
}
