//! A string that is cheap to clone: static, or reference-counted.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

use serde_json::Value;

/// Text that is part of the program, or shared. A copy is a pointer's.
#[derive(Clone)]
pub enum SharedText {
    /// Part of the program.
    Fixed(&'static str),
    /// Made while it runs; freed with its last reference.
    Shared(Arc<str>),
}

// --- SharedText ---

impl SharedText {
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            SharedText::Fixed(text) => text,
            SharedText::Shared(text) => text,
        }
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for SharedText {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for SharedText {
    fn borrow(&self) -> &str {
        self
    }
}

impl From<&'static str> for SharedText {
    fn from(text: &'static str) -> Self {
        SharedText::Fixed(text)
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        SharedText::Shared(text.into())
    }
}

impl From<Arc<str>> for SharedText {
    fn from(text: Arc<str>) -> Self {
        SharedText::Shared(text)
    }
}

impl From<&SharedText> for Value {
    fn from(text: &SharedText) -> Self {
        Value::String(text.as_str().to_owned())
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SharedText {}

impl std::hash::Hash for SharedText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<SharedText> for &str {
    fn eq(&self, other: &SharedText) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<SharedText> for Value {
    fn eq(&self, other: &SharedText) -> bool {
        self == other.as_str()
    }
}

impl serde::Serialize for SharedText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}
