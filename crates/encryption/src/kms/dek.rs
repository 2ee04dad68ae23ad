//! Data encryption keys.

use ring::hkdf;
use zeroize::Zeroizing;

use crate::provider::{CipherError, EncryptError, Gcm, random, random_secret};

/// Length in bytes of a seed, of the key derivation info, and of a key.
const LENGTH: usize = 32;

/// A data encryption key.
pub(super) enum Dek {
    /// A key that encrypts all values. Supported for reading only.
    Key(Gcm),
    /// A seed from which a key per value is derived.
    Seed(Zeroizing<Vec<u8>>),
}

struct KeyLength;

// --- Dek ---

// upstream: staging/src/k8s.io/apiserver/pkg/storage/value/encrypt/aes/aes_extended_nonce.go NewHKDFExtendedNonceGCMTransformer
impl Dek {
    /// A new seed, and the same for the plugin to encrypt.
    pub(super) fn generate() -> Result<(Self, Zeroizing<Vec<u8>>), EncryptError> {
        let seed = random_secret::<LENGTH>()?;
        let seed = Zeroizing::new(seed.to_vec());
        Ok((Self::Seed(seed.clone()), seed))
    }

    /// A seed that a plugin has decrypted; `None` if it is too short.
    pub(super) fn from_seed(seed: Zeroizing<Vec<u8>>) -> Option<Self> {
        (seed.len() >= LENGTH).then_some(Self::Seed(seed))
    }

    /// A key that a plugin has decrypted; `None` if its length is wrong.
    pub(super) fn from_key(key: &[u8]) -> Option<Self> {
        Gcm::try_new(key).map(Self::Key)
    }

    /// The key derivation info, followed by the AES-GCM ciphertext.
    pub(super) fn encrypt(&self, value: &[u8], additional: &[u8]) -> Result<Vec<u8>, EncryptError> {
        match self {
            Self::Key(key) => key.encrypt(value, additional),
            Self::Seed(seed) => {
                let info: [u8; LENGTH] = random()?;
                let key = derive(seed, &info).ok_or(EncryptError::Cipher)?;
                Ok([&info[..], &key.encrypt(value, additional)?].concat())
            }
        }
    }

    pub(super) fn decrypt(&self, data: &[u8], additional: &[u8]) -> Result<Vec<u8>, CipherError> {
        match self {
            Self::Key(key) => key.decrypt(data, additional),
            Self::Seed(seed) => {
                let (info, data) = data.split_at_checked(LENGTH).ok_or(CipherError::Short)?;
                let key = derive(seed, info).ok_or(CipherError::Wrong)?;
                key.decrypt(data, additional)
            }
        }
    }
}

/// HKDF-Expand with SHA-256.
fn derive(seed: &[u8], info: &[u8]) -> Option<Gcm> {
    let seed = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, seed);
    let info = [info];
    let expanded = seed.expand(&info, KeyLength).ok()?;
    let mut key = Zeroizing::new([0; LENGTH]);
    expanded.fill(&mut key[..]).ok()?;
    Gcm::try_new(&key[..])
}

// --- KeyLength ---

impl hkdf::KeyType for KeyLength {
    fn len(&self) -> usize {
        LENGTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_decrypts_only_with_its_seed_and_at_its_path() {
        let (dek, seed) = Dek::generate().unwrap();
        let stored = dek.encrypt(b"value", b"/a").unwrap();
        let again = Dek::from_seed(seed).unwrap();
        assert_eq!(again.decrypt(&stored, b"/a").unwrap(), b"value");
        assert_eq!(again.decrypt(&stored, b"/b"), Err(CipherError::Wrong));
        assert_eq!(again.decrypt(&stored[..31], b"/a"), Err(CipherError::Short));
        let (other, _) = Dek::generate().unwrap();
        assert_eq!(other.decrypt(&stored, b"/a"), Err(CipherError::Wrong));
    }
    /// What another implementation has encrypted with the seed of the bytes 0, 1, 2, ...
    #[test]
    fn derives_keys_as_other_implementations_do() {
        use base64::{Engine, engine::general_purpose::STANDARD};

        let stored = STANDARD
            .decode("yMnKy8zNzs/Q0dLT1NXW19jZ2tvc3d7f4OHi4+Tl5udkZWZnaGlqa2xtbm9Y0qCH6noLcU7KFJb9nDzitAimoexTs/RNAGxeNeum2Kk=")
            .unwrap();
        let dek = Dek::from_seed(Zeroizing::new((0..32).collect())).unwrap();
        let value = dek.decrypt(&stored, b"/registry/core/secrets/default/a").unwrap();
        assert_eq!(value, br#"{"kind":"Secret"}"#);
    }
}
