//! Keys of entries, and prefixes that are listed and watched.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// Maximum length of a key in bytes. It fits into a MySQL index of one column.
pub(crate) const MAX_KEY_BYTES: usize = 768;

/// The key of an entry: a path such as `/registry/pods/default/web-0`.
///
/// One to 768 bytes of UTF-8 without control characters, not ending in `/` (that would be a
/// [`Prefix`]). Ordered by bytes. Cloning copies a pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// A subtree of keys: empty (all of them), or a path that ends in `/`.
///
/// The slash prevents a list of pods from including `/podtemplates/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

/// An invalid key or prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {what}: {reason}")]
pub struct InvalidKey {
    text: String,
    what: &'static str,
    reason: &'static str,
}

// --- Key ---

impl Key {
    /// Validates a key.
    pub fn try_new(text: impl AsRef<str>) -> Result<Self, InvalidKey> {
        let text = text.as_ref();
        let refuse = |reason| Err(InvalidKey::new(text, "key", reason));
        if text.is_empty() {
            return refuse("it is empty");
        }
        if text.ends_with('/') {
            return refuse("it ends in '/', which makes it a prefix");
        }
        if let Some(reason) = flaw(text) {
            return refuse(reason);
        }
        Ok(Self(text.into()))
    }

    /// The prefixes of this key, the empty one first.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &str> {
        let deeper = self.0.match_indices('/').map(|(slash, _)| &self.0[..=slash]);
        std::iter::once("").chain(deeper)
    }
}

impl Deref for Key {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", &*self.0)
    }
}

// --- Prefix ---

impl Prefix {
    /// The prefix of all keys.
    pub fn all() -> Self {
        Self("".into())
    }

    /// Validates a prefix.
    pub fn try_new(text: impl AsRef<str>) -> Result<Self, InvalidKey> {
        let text = text.as_ref();
        let refuse = |reason| Err(InvalidKey::new(text, "prefix", reason));
        if !text.is_empty() && !text.ends_with('/') {
            return refuse("it must be empty or end in '/', or it would match its neighbours");
        }
        if let Some(reason) = flaw(text) {
            return refuse(reason);
        }
        Ok(Self(text.into()))
    }

    /// Whether the key has this prefix.
    pub fn contains(&self, key: &str) -> bool {
        key.starts_with(&*self.0)
    }
}

impl Deref for Prefix {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Prefix {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({:?})", &*self.0)
    }
}

// --- InvalidKey ---

impl InvalidKey {
    fn new(text: &str, what: &'static str, reason: &'static str) -> Self {
        // Hostile input may be megabytes long, so the message contains only its beginning.
        let text = text.chars().take(100).collect();
        Self { text, what, reason }
    }
}

/// The error that keys and prefixes have in common.
fn flaw(text: &str) -> Option<&'static str> {
    if text.len() > MAX_KEY_BYTES {
        return Some("it is longer than 768 bytes");
    }
    if text.chars().any(char::is_control) {
        return Some("it contains a control character");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_does_not_reach_its_neighbour() {
        let pods = Prefix::try_new("/pods/").unwrap();
        assert!(pods.contains("/pods/a"));
        assert!(!pods.contains("/podtemplates/a"));
        assert!(Prefix::try_new("/pods").is_err());
    }

    #[test]
    fn rejects_invalid_keys_with_a_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("/a/", "it ends in '/'"),
            ("/a\0b", "control character"),
            ("/a\nb", "control character"),
            (&"x".repeat(769), "longer than 768"),
        ] {
            let error = Key::try_new(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(error.len() < 300, "{error}");
        }
        assert!(Key::try_new("x".repeat(768)).is_ok());
    }

    #[test]
    fn a_key_names_every_prefix_it_lies_under() {
        let key = Key::try_new("/a/b/c").unwrap();
        assert_eq!(key.prefixes().collect::<Vec<_>>(), ["", "/", "/a/", "/a/b/"]);
    }
}
