//! Text that is never printed.

use std::fmt;

/// A password, or text that contains one.
#[derive(Clone)]
pub(crate) struct Secret(String);

// --- Secret ---

impl Secret {
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
