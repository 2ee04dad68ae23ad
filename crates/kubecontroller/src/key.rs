//! The key of an object within its kind.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

/// Namespace and name of an object: what controllers put into work queues, and what controller-runtime calls `NamespacedName`. The
/// namespace of a cluster-scoped object is empty. Cloning copies a pointer.
#[doc(alias = "NamespacedName")]
#[doc(alias = "ObjectName")]
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `namespace/name`, or the name of a cluster-scoped object.
    text: Arc<str>,
}

/// A text is not a key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid key {0:?}: expected NAME or NAMESPACE/NAME")]
pub struct ParseKeyError(String);

// --- Key ---

impl Key {
    /// The key of an object. An empty namespace makes it the key of a cluster-scoped object.
    pub fn new(namespace: &str, name: &str) -> Self {
        let text = if namespace.is_empty() {
            Arc::from(name)
        } else {
            // One allocation, which the `Arc` then copies: building the text on the stack first is no faster.
            Arc::from(format!("{namespace}/{name}"))
        };
        Key { text }
    }

    /// The namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.text.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// `namespace/name`, or the name of a cluster-scoped object.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.text)
    }
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let parts = text.split('/').count();
        if parts > 2 || text.split('/').any(str::is_empty) {
            return Err(ParseKeyError(text.to_owned()));
        }
        Ok(Key { text: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn parses_names_with_and_without_a_namespace() {
        let key: Key = "shop/web".parse().unwrap();
        assert_eq!(key, Key::new("shop", "web"));
        assert_eq!((key.namespace(), key.name()), ("shop", "web"));
        let key: Key = "node-1".parse().unwrap();
        assert_eq!((key.namespace(), key.name()), ("", "node-1"));
        for bad in ["", "/", "a/", "/b", "a/b/c"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }
}
