//! The current service account signing key and verification keys, replaced at run time.
//!
//! Promise: who asks gets a signer and keys that belong together.

use std::sync::Arc;

use parking_lot::RwLock;

use super::{PublicKey, Signer};

/// The current signing key and verification keys. Clones share them.
#[derive(Clone)]
pub(super) struct KeyRing {
    held: Arc<RwLock<SigningKeys>>,
    /// Keys that are always trusted: those of other issuers.
    always: Arc<[PublicKey]>,
}

#[derive(Clone)]
struct SigningKeys {
    signer: Arc<Signer>,
    keys: Arc<[PublicKey]>,
}

// --- KeyRing ---

impl KeyRing {
    pub(super) fn new(signer: Signer, always: Vec<PublicKey>) -> Self {
        let always: Arc<[PublicKey]> = always.into();
        let held = SigningKeys::new(signer, &always, &[]);
        KeyRing {
            held: Arc::new(RwLock::new(held)),
            always,
        }
    }

    /// Signs with another key from now on, and believes these further ones.
    pub(super) fn replace(&self, signer: Signer, more: &[PublicKey]) {
        let held = SigningKeys::new(signer, &self.always, more);
        *self.held.write() = held;
    }

    pub(super) fn signer(&self) -> Arc<Signer> {
        self.held().signer
    }

    /// All trusted keys, the signing key first.
    pub(super) fn keys(&self) -> Arc<[PublicKey]> {
        self.held().keys
    }

    fn held(&self) -> SigningKeys {
        self.held.read().clone()
    }
}

// --- SigningKeys ---

impl SigningKeys {
    fn new(signer: Signer, always: &[PublicKey], more: &[PublicKey]) -> Self {
        let mut keys = vec![signer.public().clone()];
        for key in more.iter().chain(always) {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        SigningKeys {
            signer: Arc::new(signer),
            keys: keys.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::keys::tests::signer, *};

    #[test]
    fn rotated_key_signs_and_listed_old_key_verifies() {
        let old = signer();
        let new = signer();
        let other = signer().public().clone();
        let old_key = old.public().clone();
        let ring = KeyRing::new(old, vec![other.clone()]);
        assert_eq!(*ring.keys(), [old_key.clone(), other.clone()]);
        let new_key = new.public().clone();
        ring.replace(new, std::slice::from_ref(&old_key));
        assert_eq!(*ring.keys(), [new_key.clone(), old_key, other.clone()]);
        assert_eq!(ring.signer().public(), &new_key);
        ring.replace(signer(), &[]);
        assert!(!ring.keys().contains(&new_key) && ring.keys().contains(&other));
    }
}
