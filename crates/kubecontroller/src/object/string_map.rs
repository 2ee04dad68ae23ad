//! A compact map for labels and annotations.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// Labels or annotations: names and values in one slice, ordered by name. For a few entries it takes a tenth of the memory of a
/// `BTreeMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringMap(Box<[Pair]>);

type Pair = (Box<str>, Box<str>);

// --- StringMap ---

impl StringMap {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// All names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Deserializes a map, but skips one name.
    pub(super) fn read_without<'de, D: Deserializer<'de>>(from: D, skipped: &str) -> Result<Self, D::Error> {
        let pairs = from.deserialize_option(PairsVisitor { skipped })?;
        Ok(pairs.into_iter().collect())
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
        StringMap(pairs.into_boxed_slice())
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        StringMap::read_without(from, "")
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
}
