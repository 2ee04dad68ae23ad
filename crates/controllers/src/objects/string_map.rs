//! Labels and annotations.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Interner;

/// Names and their values; kept once for all objects that have the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringMap(Arc<Map>);

type Map = BTreeMap<Box<str>, Box<str>>;

static POOL: LazyLock<Interner<Map>> = LazyLock::new(Interner::default);
static NONE: LazyLock<Arc<Map>> = LazyLock::new(Arc::default);

// --- Words ---

impl Default for StringMap {
    fn default() -> Self {
        StringMap(Arc::clone(&NONE))
    }
}

impl Deref for StringMap {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.0
    }
}

impl From<Map> for StringMap {
    fn from(map: Map) -> Self {
        if map.is_empty() {
            return StringMap::default();
        }
        StringMap(POOL.share(map))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        pairs.collect::<Map>().into()
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let map = Option::<Map>::deserialize(from)?;
        Ok(map.unwrap_or_default().into())
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Map::serialize(self, to)
    }
}
