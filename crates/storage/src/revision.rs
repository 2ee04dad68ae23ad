//! Revisions: the logical clock of a store.

use std::fmt;

/// The number of a commit, and the state of the store after it.
///
/// All keys of a store share one sequence. An empty store is at [`Revision::FIRST`], and the first commit gets the next
/// revision, so zero precedes all states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

// --- Revision ---

impl Revision {
    /// Precedes all commits and all states.
    pub const ZERO: Self = Self(0);
    /// The revision of an empty store.
    pub const FIRST: Self = Self(1);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision.
    ///
    /// At a million commits a second the sequence lasts half a million years.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
