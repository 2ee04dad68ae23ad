//! Labels and annotations.

use std::{
    collections::BTreeMap,
    ops::Deref,
    sync::{Arc, LazyLock},
};

use kubecontroller::selector::Labels;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Interner;

/// Labels or annotations; equal maps are stored once.
// upstream: staging/src/k8s.io/apimachinery/pkg/labels/labels.go Set
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringMap(Arc<TextMap>);

type TextMap = BTreeMap<Box<str>, Box<str>>;

static POOL: LazyLock<Interner<TextMap>> = LazyLock::new(Interner::default);
static NONE: LazyLock<Arc<TextMap>> = LazyLock::new(Arc::default);

// --- StringMap ---

impl Default for StringMap {
    fn default() -> Self {
        StringMap(Arc::clone(&NONE))
    }
}

impl Deref for StringMap {
    type Target = TextMap;

    fn deref(&self) -> &TextMap {
        &self.0
    }
}

impl Labels for StringMap {
    fn get(&self, key: &str) -> Option<&str> {
        Labels::get(&*self.0, key)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        self.0.visit(see);
    }
}

impl From<TextMap> for StringMap {
    fn from(map: TextMap) -> Self {
        if map.is_empty() {
            return StringMap::default();
        }
        StringMap(POOL.share(map))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        pairs.collect::<TextMap>().into()
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let map = Option::<TextMap>::deserialize(from)?;
        Ok(map.unwrap_or_default().into())
    }
}

impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        TextMap::serialize(self, to)
    }
}
