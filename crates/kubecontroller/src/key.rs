//! The name of an object within its kind.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

/// Namespace and name of an object; the namespace is empty for cluster-wide objects. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `namespace/name`, or just the name.
    text: Arc<str>,
}

/// A text that is not the key of an object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key: want NAME or NAMESPACE/NAME")]
pub struct ParseKeyError(String);

// --- Key ---

impl Key {
    /// The key of an object in a namespace; of a cluster-wide one if that is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        let text = if namespace.is_empty() {
            Arc::from(name)
        } else {
            // Most names are short: a text on the stack would be no faster, for the allocation is the one that stays.
            Arc::from(format!("{namespace}/{name}"))
        };
        Key { text }
    }

    /// The namespace; empty for cluster-wide objects.
    pub fn namespace(&self) -> &str {
        self.text.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.text.split_once('/').map_or(&*self.text, |(_, name)| name)
    }

    /// `namespace/name`, or just the name.
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
    fn a_key_is_a_name_with_or_without_a_namespace() {
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
