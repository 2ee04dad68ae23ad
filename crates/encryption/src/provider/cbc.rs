//! AES-CBC with PKCS#7 padding. Nothing is authenticated, as upstream; new configurations should not use it.

use aes::{
    Aes128, Aes192, Aes256,
    cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit, block_padding::Pkcs7},
};
use zeroize::Zeroizing;

use super::{CipherError, EncryptError, random};

const BLOCK: usize = 16;

/// A key of 16, 24 or 32 bytes.
pub(super) struct Cbc(Zeroizing<Vec<u8>>);

// --- Cbc ---

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/aes/aes.go NewCBCTransformer
impl Cbc {
    pub(super) fn new(key: &[u8]) -> Self {
        Self(Zeroizing::new(key.to_vec()))
    }

    /// The initialization vector, then the ciphertext.
    pub(super) fn encrypt(&self, value: &[u8]) -> Result<Vec<u8>, EncryptError> {
        let start: [u8; BLOCK] = random()?;
        let encrypted = match self.0.len() {
            16 => seal::<cbc::Encryptor<Aes128>>(&self.0, &start, value),
            24 => seal::<cbc::Encryptor<Aes192>>(&self.0, &start, value),
            _ => seal::<cbc::Encryptor<Aes256>>(&self.0, &start, value),
        };
        let encrypted = encrypted.ok_or(EncryptError::Cipher)?;
        Ok([&start[..], &encrypted].concat())
    }

    pub(super) fn decrypt(&self, data: &[u8]) -> Result<Vec<u8>, CipherError> {
        if data.len() < BLOCK {
            return Err(CipherError::Short);
        }
        let (start, encrypted) = data.split_at(BLOCK);
        if !encrypted.len().is_multiple_of(BLOCK) {
            return Err(CipherError::BlockSize);
        }
        let value = match self.0.len() {
            16 => open::<cbc::Decryptor<Aes128>>(&self.0, start, encrypted),
            24 => open::<cbc::Decryptor<Aes192>>(&self.0, start, encrypted),
            _ => open::<cbc::Decryptor<Aes256>>(&self.0, start, encrypted),
        };
        value.ok_or(CipherError::Wrong)
    }
}

fn seal<C: KeyIvInit + BlockEncryptMut>(key: &[u8], start: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let cipher = C::new_from_slices(key, start).ok()?;
    Some(cipher.encrypt_padded_vec_mut::<Pkcs7>(value))
}

fn open<C: KeyIvInit + BlockDecryptMut>(key: &[u8], start: &[u8], encrypted: &[u8]) -> Option<Vec<u8>> {
    let cipher = C::new_from_slices(key, start).ok()?;
    cipher.decrypt_padded_vec_mut::<Pkcs7>(encrypted).ok()
}
