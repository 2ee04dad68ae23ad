//! Reading a subtree, a page at a time, all pages at one revision.

use crate::{Entry, Key, Revision};

/// Which part of a range to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The revision to read at; `None` for the newest. Later pages name the revision of the first,
    /// and so see the same snapshot.
    pub at: Option<Revision>,
    /// Begin behind this key.
    pub after: Option<Key>,
    /// At most this many entries; zero for no limit.
    pub limit: usize,
}

/// A page of entries, in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The revision at which this is the state of the store. A watch after it misses nothing.
    pub revision: Revision,
    /// Whether entries follow.
    pub more: bool,
}

// --- Page ---

impl Page {
    /// Everything, as it is now.
    pub fn all() -> Self {
        Self::default()
    }

    /// The first entries, as they are now.
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
