//! All entries of a store at one revision, page by page, while it continues taking writes.

use super::digest::EntryDigest;
use crate::{Entry, Key, Page, Prefix, ReadError, Revision, Store, StoreError};

/// Bytes a page should have. Values may be anything from nothing to 1.5 MiB, and a page is in memory
/// as a whole.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Entries a page has at most: later values may be far larger than those so far. And no fewer: etcd counts all that follow
/// for each page.
const MAX_PAGE: usize = 2000;
/// Entries of the first page, of which nothing is known yet.
const FIRST_PAGE: usize = 50;

/// A walk through a store.
pub(super) struct StoreSnapshot<'a> {
    store: &'a dyn Store,
    /// The page to read next; `None` behind the last.
    next: Option<Page>,
    /// The greatest key so far.
    last: Option<Key>,
}

/// Some entries, in the order of their keys, and the revision of the walk.
pub(super) struct SnapshotPart {
    pub(super) entries: Vec<Entry>,
    pub(super) revision: Revision,
}

// --- StoreSnapshot ---

impl<'a> StoreSnapshot<'a> {
    /// A walk through the store as it is now.
    pub(super) fn newest(store: &'a dyn Store) -> Self {
        Self::read(store, None)
    }

    /// A walk through the store as it was.
    pub(super) fn at(store: &'a dyn Store, revision: Revision) -> Self {
        Self::read(store, Some(revision))
    }

    fn read(store: &'a dyn Store, at: Option<Revision>) -> Self {
        let page = Page {
            at,
            after: None,
            limit: FIRST_PAGE,
        };
        Self {
            store,
            next: Some(page),
            last: None,
        }
    }

    /// The next part; `None` when all have been read. There is at least one, which may be empty.
    pub(super) async fn next(&mut self) -> Result<Option<SnapshotPart>, ReadError> {
        let Some(page) = self.next.take() else {
            return Ok(None);
        };
        let at = page.at;
        let limit = page.limit;
        if at.is_some() {
            // A store in memory answers at once: without this, others on the thread wait for the end.
            tokio::task::yield_now().await;
        }
        let range = self.store.range(&Prefix::all(), page).await?;
        self.check(&range.entries)?;
        if at.is_some_and(|at| at != range.revision) {
            return Err(broken("a page has another revision than requested").into());
        }
        self.next = range.next(next_limit(limit, &range.entries));
        Ok(Some(SnapshotPart {
            entries: range.entries,
            revision: range.revision,
        }))
    }

    /// A store that lists out of order, as a database with the wrong collation does, would make
    /// backups that cannot be restored.
    fn check(&mut self, entries: &[Entry]) -> Result<(), StoreError> {
        for entry in entries {
            if self.last.as_ref().is_some_and(|last| entry.key <= *last) {
                return Err(broken("its entries are not ordered by key"));
            }
            self.last = Some(entry.key.clone());
        }
        Ok(())
    }
}

/// What the store held when the import ended: its first users may have changed it since.
pub(super) async fn read_back(store: &dyn Store, at: Revision) -> Result<EntryDigest, ReadError> {
    let mut digest = EntryDigest::default();
    let mut snapshot = StoreSnapshot::at(store, at);
    while let Some(part) = snapshot.next().await? {
        part.entries.iter().for_each(|entry| digest.add(entry));
    }
    Ok(digest)
}

fn broken(reason: &str) -> StoreError {
    StoreError::Corrupt(reason.to_owned())
}

/// As many entries as would have made the last page the right size, but never more than twice as many.
fn next_limit(limit: usize, entries: &[Entry]) -> usize {
    let bytes: usize = entries
        .iter()
        .map(|entry| entry.key.len() + entry.value.len())
        .sum();
    let fitting = limit * PAGE_BYTES / bytes.max(1);
    fitting.min(limit * 2).clamp(1, MAX_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::tests::entry;

    #[test]
    fn pages_shrink_for_large_values_and_grow_for_small_ones() {
        let large: Vec<_> = (0..50)
            .map(|n| entry(&format!("/{n}"), &vec![0; 1_000_000], 2))
            .collect();
        assert_eq!(next_limit(50, &large), 4);
        let small = [entry("/a", b"x", 2)];
        assert_eq!(next_limit(4, &small), 8);
        assert_eq!(next_limit(MAX_PAGE - 1, &small), MAX_PAGE);
        assert_eq!(next_limit(1, &large[..1]), 2);
    }
}
