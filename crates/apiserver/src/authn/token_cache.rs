//! A cache of recently verified tokens.
//!
//! Promises: an entry is invalid once an object it depends on has changed or was deleted; entries expire after seconds; their
//! number is bounded; tokens are stored as hashes only.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use k3_api::time::Time;
use ring::digest::{Context, SHA256};

use super::{
    AuthenticatedUser,
    lookup::{ObservedObject, TokenObjectLookup},
};

const SECONDS: i64 = 10;
const MOST: usize = 8192;

type TokenHash = [u8; 32];

#[derive(Default)]
pub(super) struct TokenCache {
    records: Mutex<HashMap<TokenHash, TokenCacheEntry>>,
}

struct TokenCacheEntry {
    when: Time,
    known: AuthenticatedUser,
    seen: Vec<ObservedObject>,
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
        let (known, seen) = {
            let records = self.lock();
            let record = records.get(hash).filter(|record| record.is_fresh(now))?;
            (record.known.clone(), record.seen.clone())
        };
        let is_over = known.expires.is_some_and(|expires| expires < now.unix_seconds());
        (!is_over && lookup.is_unchanged(&seen)).then_some(known)
    }

    /// Caches a result.
    pub(super) fn put(
        &self,
        hash: TokenHash,
        known: &AuthenticatedUser,
        seen: Vec<ObservedObject>,
        now: Time,
    ) {
        let mut records = self.lock();
        if records.len() >= MOST {
            records.retain(|_, record| record.is_fresh(now));
        }
        if records.len() >= MOST {
            records.clear();
        }
        let record = TokenCacheEntry {
            when: now,
            known: known.clone(),
            seen,
        };
        records.insert(hash, record);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenHash, TokenCacheEntry>> {
        // The map is never half changed.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// --- TokenCacheEntry ---

impl TokenCacheEntry {
    fn is_fresh(&self, now: Time) -> bool {
        (0..SECONDS).contains(&(now.unix_seconds() - self.when.unix_seconds()))
    }
}

/// The cache key: a hash of token and audiences.
pub(super) fn hash(token: &str, audiences: &[String]) -> TokenHash {
    let mut context = Context::new(&SHA256);
    for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
        // With the length, so that no two lists of texts are alike.
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
