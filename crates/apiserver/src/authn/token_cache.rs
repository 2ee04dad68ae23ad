//! A cache of recently verified tokens.
//!
//! Promises: an entry is invalid once an object it depends on has changed or was deleted; entries expire after seconds; their
//! number is bounded; tokens are stored as hashes only.

use std::collections::HashMap;

use k3_api::time::Time;
use parking_lot::{Mutex, MutexGuard};
use ring::digest::{Context, SHA256};

use super::{
    AuthenticatedUser,
    lookup::{ObservedObject, TokenObjectLookup},
};

/// How long a verified token is cached, in seconds.
const TIME_TO_LIVE: i64 = 10;
const MAX_TOKENS: usize = 8192;

type TokenHash = [u8; 32];

#[derive(Default)]
pub(super) struct TokenCache {
    records: Mutex<HashMap<TokenHash, TokenCacheEntry>>,
}

struct TokenCacheEntry {
    verified_at: Time,
    user: AuthenticatedUser,
    observed: Vec<ObservedObject>,
}

// --- TokenCache ---

impl TokenCache {
    /// The cached result for a token, if it is recent and its objects are unchanged.
    pub(super) fn get(
        &self,
        hash: &TokenHash,
        now: Time,
        lookup: &TokenObjectLookup,
    ) -> Option<AuthenticatedUser> {
        let (user, observed) = {
            let records = self.lock();
            let record = records.get(hash).filter(|record| record.is_fresh(now))?;
            (record.user.clone(), record.observed.clone())
        };
        let is_expired = user.expires.is_some_and(|expires| expires < now.unix_seconds());
        (!is_expired && lookup.is_unchanged(&observed)).then_some(user)
    }

    /// Caches a result.
    pub(super) fn put(
        &self,
        hash: TokenHash,
        user: &AuthenticatedUser,
        observed: Vec<ObservedObject>,
        now: Time,
    ) {
        let mut records = self.lock();
        if records.len() >= MAX_TOKENS {
            records.retain(|_, record| record.is_fresh(now));
        }
        if records.len() >= MAX_TOKENS {
            records.clear();
        }
        let record = TokenCacheEntry {
            verified_at: now,
            user: user.clone(),
            observed,
        };
        records.insert(hash, record);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenHash, TokenCacheEntry>> {
        // The map is never half changed.
        self.records.lock()
    }
}

// --- TokenCacheEntry ---

impl TokenCacheEntry {
    fn is_fresh(&self, now: Time) -> bool {
        (0..TIME_TO_LIVE).contains(&(now.unix_seconds() - self.verified_at.unix_seconds()))
    }
}

/// The cache key: a hash of token and audiences.
pub(super) fn hash(token: &str, audiences: &[String]) -> TokenHash {
    let mut context = Context::new(&SHA256);
    for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
        // The length separates the texts: without it, different lists could have the same hash.
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    let mut hash = TokenHash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_depends_on_token_and_audiences() {
        let audiences = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = [
            hash("a", &[]),
            hash("ab", &[]),
            hash("a", &audiences(&["b"])),
            hash("a", &audiences(&["b", ""])),
            hash("", &audiences(&["a", "b"])),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != one), "{at}");
        }
    }
}
