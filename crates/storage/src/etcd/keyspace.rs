//! The layout of the keys in etcd.

use bytes::Bytes;

use crate::{Key, Prefix};

/// The etcd keys of a store: all keys with its prefix.
#[derive(Clone, Debug)]
pub(super) struct Keyspace {
    /// Ends in `/`.
    prefix: String,
}

/// A range of keys without its end; a single key if the end is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeySpan {
    pub(super) start: Bytes,
    pub(super) end: Bytes,
}

/// The meaning of a key of the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    /// An entry with this name.
    Entry(&'a str),
    /// The state of the store.
    EtcdStoreState,
    /// Anything else.
    Other,
}

// --- Keyspace ---

impl Keyspace {
    pub(super) fn try_new(prefix: &str) -> Result<Self, &'static str> {
        if prefix.is_empty() {
            return Err("it is empty, and would claim all of etcd");
        }
        if !prefix.ends_with('/') {
            return Err("it must end in '/', or it would reach into its neighbours");
        }
        if prefix.chars().any(char::is_control) {
            return Err("it contains a control character");
        }
        Ok(Self {
            prefix: prefix.to_owned(),
        })
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// All keys of the store.
    pub(super) fn all(&self) -> KeySpan {
        KeySpan::under(&self.prefix)
    }

    pub(super) fn format(&self) -> Bytes {
        format!("{}meta/format", self.prefix).into()
    }

    pub(super) fn state(&self) -> Bytes {
        format!("{}meta/state", self.prefix).into()
    }

    pub(super) fn history_mark(&self) -> Bytes {
        format!("{}meta/history-mark", self.prefix).into()
    }

    pub(super) fn write_progress_key(&self) -> Bytes {
        format!("{}meta/beat", self.prefix).into()
    }

    pub(super) fn entry(&self, key: &Key) -> Bytes {
        format!("{}data/{key}", self.prefix).into()
    }

    /// The entries with a prefix, after a key.
    pub(super) fn entries(&self, prefix: &Prefix, after: Option<&Key>) -> KeySpan {
        let mut span = KeySpan::under(&format!("{}data/{prefix}", self.prefix));
        if let Some(after) = after {
            // No key lies between a key and itself with a zero byte.
            let behind = Bytes::from(format!("{}data/{after}\0", self.prefix));
            span.start = span.start.max(behind);
        }
        span
    }

    pub(super) fn role<'a>(&self, key: &'a [u8]) -> Role<'a> {
        let Some(rest) = std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.strip_prefix(&self.prefix))
        else {
            return Role::Other;
        };
        match rest.strip_prefix("data/") {
            Some(name) => Role::Entry(name),
            None if rest == "meta/state" => Role::EtcdStoreState,
            None => Role::Other,
        }
    }
}

// --- KeySpan ---

impl KeySpan {
    /// One key.
    pub(super) fn single(key: Bytes) -> Self {
        Self {
            start: key,
            end: Bytes::new(),
        }
    }

    /// All keys with a prefix that ends in `/`.
    fn under(prefix: &str) -> Self {
        let stem = prefix.strip_suffix('/').expect("prefixes of keys end in a slash");
        // '0' follows '/' in ASCII.
        Self {
            start: prefix.to_owned().into(),
            end: format!("{stem}0").into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace() -> Keyspace {
        Keyspace::try_new("/k3/").unwrap()
    }

    #[test]
    fn a_span_holds_what_is_under_its_prefix_and_nothing_else() {
        let pods = keyspace().entries(&Prefix::try_new("/pods/").unwrap(), None);
        let holds = |key: &str| {
            let key = keyspace().entry(&Key::try_new(key).unwrap());
            pods.start <= key && key < pods.end
        };
        assert!(holds("/pods/a"));
        assert!(holds("/pods/\u{10ffff}"));
        assert!(!holds("/podtemplates/a"));
        assert!(!holds("/pods"));
    }

    #[test]
    fn a_page_begins_behind_the_key_it_names() {
        let pods = Prefix::try_new("/pods/").unwrap();
        let after = Key::try_new("/pods/b").unwrap();
        let span = keyspace().entries(&pods, Some(&after));
        assert!(span.start > keyspace().entry(&after));
        assert!(span.start < keyspace().entry(&Key::try_new("/pods/b-").unwrap()));
        // A key before the prefix does not widen the page.
        let before = Key::try_new("/a").unwrap();
        assert_eq!(
            keyspace().entries(&pods, Some(&before)),
            keyspace().entries(&pods, None)
        );
    }

    #[test]
    fn each_key_has_its_role() {
        let keys = keyspace();
        assert_eq!(keys.role(b"/k3/data//pods/a"), Role::Entry("/pods/a"));
        assert_eq!(keys.role(&keys.state()), Role::EtcdStoreState);
        assert_eq!(keys.role(&keys.write_progress_key()), Role::Other);
        assert_eq!(keys.role(b"/k3/data/\xff"), Role::Other);
    }
}
