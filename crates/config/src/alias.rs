//! Other names of keys: those of older versions, and those that documents use.

/// Another name of a key. It means the same wherever the name of the key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// In files, and as a flag like every name of a key.
    Key {
        /// The other name, with dots.
        name: &'static str,
        /// The name of the key.
        key: &'static str,
    },
    /// On the command line, where help lists it.
    Flag {
        /// The other name, without dashes.
        name: &'static str,
        /// The name of the key.
        key: &'static str,
    },
    /// In the environment.
    Variable {
        /// The name of the variable.
        name: &'static str,
        /// The name of the key.
        key: &'static str,
    },
}

// --- Alias ---

impl Alias {
    /// Another name in files.
    pub const fn key(name: &'static str, key: &'static str) -> Self {
        Self::Key { name, key }
    }

    /// Another flag.
    pub const fn flag(name: &'static str, key: &'static str) -> Self {
        Self::Flag { name, key }
    }

    /// A variable, which overrides the one that is derived from the name of the key.
    pub const fn variable(name: &'static str, key: &'static str) -> Self {
        Self::Variable { name, key }
    }

    /// The name of the key.
    pub(crate) fn target(&self) -> &'static str {
        match self {
            Self::Key { key, .. } | Self::Flag { key, .. } | Self::Variable { key, .. } => key,
        }
    }
}
