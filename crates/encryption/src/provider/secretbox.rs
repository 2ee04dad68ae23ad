//! `XSalsa20` with Poly1305, as the secretbox of `NaCl` has it. The key in the store is not authenticated, as upstream.

use crypto_secretbox::{KeyInit, Nonce, XSalsa20Poly1305, aead::Aead};

use super::{CipherError, EncryptError, random};

const NONCE: usize = 24;
const TAG: usize = 16;

/// A key.
pub(super) struct Secretbox(XSalsa20Poly1305);

// --- Secretbox ---

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/secretbox/secretbox.go NewSecretboxTransformer
impl Secretbox {
    pub(super) fn new(key: &[u8]) -> Self {
        Self(XSalsa20Poly1305::new_from_slice(key).expect("a valid configuration has keys of 32 bytes"))
    }

    /// The nonce, then the tag and the ciphertext.
    pub(super) fn encrypt(&self, value: &[u8]) -> Result<Vec<u8>, EncryptError> {
        let nonce: [u8; NONCE] = random()?;
        let sealed = self.0.encrypt(&Nonce::from(nonce), value);
        let sealed = sealed.map_err(|_| EncryptError::Cipher)?;
        Ok([&nonce[..], &sealed].concat())
    }

    pub(super) fn decrypt(&self, data: &[u8]) -> Result<Vec<u8>, CipherError> {
        if data.len() < NONCE + TAG {
            return Err(CipherError::Short);
        }
        let (nonce, sealed) = data.split_first_chunk::<NONCE>().ok_or(CipherError::Short)?;
        let opened = self.0.decrypt(&Nonce::from(*nonce), sealed);
        opened.map_err(|_| CipherError::Wrong)
    }
}
