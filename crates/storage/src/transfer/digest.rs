//! A digest of the entries written to a store, to compare with what is read back.

use std::collections::HashMap;

use crc32fast::Hasher;
use k3_task::Clock;

use crate::{Entry, Expiry, Key};

/// Entries that were put into a store, in the order of their keys.
#[derive(Default)]
pub(super) struct EntryDigest {
    /// How many of them stay.
    permanent: u64,
    /// A checksum of their keys and values.
    sum: Hasher,
    /// Those that expire, each for itself: by the time they are looked for, some may be removed.
    expiring: HashMap<Key, (Expiry, u32)>,
}

/// How what was found differs from what was put.
pub(super) type Difference = String;

// --- EntryDigest ---

impl EntryDigest {
    /// Notes an entry.
    pub(super) fn add(&mut self, entry: &Entry) {
        match entry.expiry {
            None => {
                self.permanent += 1;
                feed(&mut self.sum, entry);
            }
            Some(expiry) => {
                let mut sum = Hasher::new();
                feed(&mut sum, entry);
                self.expiring.insert(entry.key.clone(), (expiry, sum.finalize()));
            }
        }
    }

    /// Compares what was put, which is this, with what was found. All must be there and nothing else,
    /// but for entries whose time has arrived since; answers with how many those are.
    pub(super) fn compare(self, found: &Self, clock: &Clock) -> Result<u64, Difference> {
        if self.permanent != found.permanent {
            return Err(format!(
                "it holds {} permanent entries of {}",
                found.permanent, self.permanent
            ));
        }
        if self.sum.finalize() != found.sum.clone().finalize() {
            return Err("the keys and values it holds are not those that were copied".to_owned());
        }
        for (key, (_, sum)) in &found.expiring {
            match self.expiring.get(key) {
                None => return Err(format!("it holds {key}, which was not copied")),
                Some((_, put)) if put != sum => {
                    return Err(format!("the value of {key} is not the one copied"));
                }
                Some(_) => {}
            }
        }
        let now = clock.system_time();
        let missing = self
            .expiring
            .iter()
            .filter(|(key, _)| !found.expiring.contains_key(*key));
        let mut expired = 0;
        for (key, (expiry, _)) in missing {
            if !expiry.left(now).is_zero() {
                return Err(format!("{key} is missing before its time"));
            }
            expired += 1;
        }
        Ok(expired)
    }
}

/// Lengths go in too: or a byte could move from the end of a value to the next key unnoticed.
fn feed(sum: &mut Hasher, entry: &Entry) {
    sum.update(&(entry.key.len() as u64).to_le_bytes());
    sum.update(entry.key.as_bytes());
    sum.update(&(entry.value.len() as u64).to_le_bytes());
    sum.update(&entry.value);
}
