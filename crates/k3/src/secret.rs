//! A text that is not shown.

use std::fmt;

/// A password, or what holds one.
#[derive(Clone)]
pub(crate) struct Secret(String);

// --- Secret ---

impl Secret {
    /// The text itself, for who needs it.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
