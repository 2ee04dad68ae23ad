//! Paginated lists: all pages show the same revision.

use crate::{Entry, Key, Revision};

/// Options of a list: revision, continuation and limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The revision to read at; `None` for the newest. Later pages name the revision of the first,
    /// and so see the same snapshot.
    pub at: Option<Revision>,
    /// Start after this key.
    pub after: Option<Key>,
    /// Maximum number of entries; zero for no limit.
    pub limit: usize,
}

/// A page of entries, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision of the snapshot. A watch after it misses no event.
    pub revision: Revision,
    /// Whether there are more entries.
    pub more: bool,
}

// --- Page ---

impl Page {
    /// All entries of the newest revision.
    pub fn all() -> Self {
        Self::default()
    }

    /// The first entries of the newest revision.
    pub fn first(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }
}

// --- Range ---

impl Range {
    /// The page that follows this one, or `None` at the end.
    pub fn next(&self, limit: usize) -> Option<Page> {
        let last = self.entries.last().filter(|_| self.more)?;
        Some(Page {
            at: Some(self.revision),
            after: Some(last.key.clone()),
            limit,
        })
    }
}
