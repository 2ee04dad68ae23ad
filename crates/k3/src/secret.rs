//! Text that is never printed.

use std::fmt;

/// A password, or text that contains one.
#[derive(Clone)]
pub(crate) struct SecretString(String);

// --- SecretString ---

impl SecretString {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretString {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
