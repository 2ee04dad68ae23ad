//! Labels and annotations.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Pool;

/// Names and their values; kept once for all objects that have the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(Arc<Map>);

type Map = BTreeMap<Box<str>, Box<str>>;

static POOL: LazyLock<Pool<Map>> = LazyLock::new(Pool::default);
static NONE: LazyLock<Arc<Map>> = LazyLock::new(Arc::default);

// --- Words ---

impl Default for Words {
    fn default() -> Self {
        Words(Arc::clone(&NONE))
    }
}

impl Deref for Words {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.0
    }
}

impl From<Map> for Words {
    fn from(map: Map) -> Self {
        if map.is_empty() {
            return Words::default();
        }
        Words(POOL.share(map))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for Words {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        pairs.collect::<Map>().into()
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let map = Option::<Map>::deserialize(from)?;
        Ok(map.unwrap_or_default().into())
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Map::serialize(self, to)
    }
}
