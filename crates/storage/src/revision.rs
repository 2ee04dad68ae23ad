//! The store's one clock.

use std::fmt;

/// A point in the history of a store: the number of its newest commit.
///
/// One sequence per store, shared by all keys. An empty store stands at [`Revision::FIRST`], and the
/// first commit gets the next one, so that zero is free to mean "before everything".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

// --- Revision ---

impl Revision {
    /// Before everything: no commit has it, and no store keeps a state from then.
    pub const ZERO: Self = Self(0);
    /// Where an empty store stands.
    pub const FIRST: Self = Self(1);

    /// The revision with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The revision that follows.
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
