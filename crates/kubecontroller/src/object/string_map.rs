//! Labels and annotations.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::Interner;
use crate::selector::Labels;

/// Labels or annotations: names and values in one slice, ordered by name. For a few entries it takes a tenth of the memory of a
/// `BTreeMap`, and equal maps are stored once.
// upstream: staging/src/k8s.io/apimachinery/pkg/labels/labels.go Set
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StringMap(Option<Arc<[Pair]>>);

type Pair = (Box<str>, Box<str>);

static POOL: LazyLock<Interner<[Pair]>> = LazyLock::new(Interner::default);

// --- StringMap ---

impl StringMap {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let pairs = self.pairs();
        let at = pairs.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&pairs[at].1)
    }

    /// Whether there is a value of a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().iter().map(|(name, value)| (&**name, &**value))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.pairs().len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// A map that can be changed.
    pub fn to_map(&self) -> BTreeMap<Box<str>, Box<str>> {
        self.pairs().iter().cloned().collect()
    }

    /// The address of the copy that all equal maps share.
    pub fn as_ptr(&self) -> *const (Box<str>, Box<str>) {
        self.pairs().as_ptr()
    }

    /// Deserializes a map, but skips one name.
    pub(super) fn read_without<'de, D: Deserializer<'de>>(from: D, skipped: &str) -> Result<Self, D::Error> {
        let pairs = from.deserialize_option(PairsVisitor { skipped })?;
        Ok(pairs.into_iter().collect())
    }

    fn pairs(&self) -> &[Pair] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Labels for StringMap {
    fn get(&self, key: &str) -> Option<&str> {
        StringMap::get(self, key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        for (name, value) in self.iter() {
            see(name, value);
        }
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for StringMap {
    /// Of several values for a name the last one wins.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<Pair> = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        pairs.reverse();
        pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
        pairs.dedup_by(|(one, _), (other, _)| one == other);
        StringMap((!pairs.is_empty()).then(|| POOL.share(pairs)))
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        StringMap::read_without(from, "")
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

struct PairsVisitor<'skipped> {
    skipped: &'skipped str,
}

impl<'de> Visitor<'de> for PairsVisitor<'_> {
    type Value = Vec<Pair>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_none<E>(self) -> Result<Vec<Pair>, E> {
        Ok(Vec::new())
    }

    fn visit_unit<E>(self) -> Result<Vec<Pair>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Pair>, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Vec<Pair>, M::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == self.skipped {
                map.next_value::<IgnoredAny>()?;
            } else {
                pairs.push((name.into(), map.next_value()?));
            }
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::StringMap;

    #[test]
    fn finds_values_by_name_and_keeps_the_last_duplicate() {
        let pairs: StringMap = serde_json::from_str(r#"{"tier":"web","app":"old","app":"cart"}"#).unwrap();
        assert_eq!(pairs.get("app"), Some("cart"));
        assert_eq!(pairs.get("none"), None);
        let all: Vec<_> = pairs.iter().collect();
        assert_eq!(all, [("app", "cart"), ("tier", "web")]);
        assert_eq!(
            serde_json::from_str::<StringMap>("null").unwrap(),
            StringMap::default()
        );
    }

    #[test]
    fn stores_equal_maps_once() {
        let map = || StringMap::from_iter([("stored", "once")]);
        let first = map();
        assert_eq!(first.as_ptr(), map().as_ptr());
        let other = StringMap::from_iter([("stored", "twice")]);
        assert_ne!(first.as_ptr(), other.as_ptr());
    }
}
