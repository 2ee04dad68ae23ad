//! Maps and objects.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Map as JsonMap, Value as Json};

use super::{Text, Value};
use crate::{
    decl::{DeclType, ObjectDeclType},
    error::EvalError,
    escape,
};

/// A map, or an object.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Part of a tree whose names are keys.
    Json {
        /// The entries.
        entries: &'a JsonMap<String, Json>,
        /// What the values are.
        decl: Arc<DeclType>,
    },
    /// Part of a tree whose names are fields.
    Object {
        /// The properties.
        entries: &'a JsonMap<String, Json>,
        /// What they are.
        decl: Arc<ObjectDeclType>,
    },
    /// Made by an expression, or given.
    Owned(Arc<Entries<'a>>),
}

/// The entries of a map, in their order.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    pairs: Vec<(Value<'a>, Value<'a>)>,
    places: HashMap<Key, usize>,
    /// What keys that are not there have.
    default: Option<Value<'a>>,
}

/// A key by which entries are found: numbers that are equal are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    String(Box<str>),
}

// --- Map ---

impl<'a> Map<'a> {
    /// How many entries.
    pub fn len(&self) -> usize {
        match self {
            Map::Json { entries, .. } | Map::Object { entries, .. } => entries.len(),
            Map::Owned(map) => map.pairs.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Map::Json { entries, decl } => entries.get(name).map(|value| Value::read(value, decl)),
            Map::Object { entries, decl } => {
                let field = decl.find(name)?;
                match entries.get(&*field.property)? {
                    Json::Null => None,
                    value => Some(Value::read(value, &field.decl)),
                }
            }
            Map::Owned(map) => map.find(&Key::String(name.into())).cloned().map(Ok),
        }
    }

    /// The value of a key.
    pub(crate) fn find(&self, key: &Value<'a>) -> Option<Result<Value<'a>, EvalError>> {
        match (self, key) {
            (_, Value::String(name)) => self.get(name),
            (Map::Owned(map), key) => map.find(&Key::of(key)?).cloned().map(Ok),
            (Map::Json { .. } | Map::Object { .. }, _) => None,
        }
    }

    /// The value of a name and whether it is there itself, for presence.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Map::Json { entries, .. } => entries.contains_key(name),
            Map::Object { entries, decl } => decl
                .find(name)
                .and_then(|field| entries.get(&*field.property))
                .is_some_and(|value| !value.is_null()),
            Map::Owned(map) => map.places.contains_key(&Key::String(name.into())) || map.default.is_some(),
        }
    }

    /// The keys.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json { entries, .. } => entries
                .keys()
                .map(|key| Value::String(Text::Borrowed(key)))
                .collect(),
            Map::Object { entries, decl } => entries
                .keys()
                .filter(|key| decl.of_property(key).is_some())
                .filter_map(|key| escape::escape(key))
                .map(Value::text)
                .collect(),
            Map::Owned(map) => map.pairs.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// With one entry more.
    pub(crate) fn insert(self, key: Value<'a>, value: Value<'a>) -> Result<Map<'a>, EvalError> {
        let mut owned = match self {
            Map::Owned(map) => Arc::try_unwrap(map).unwrap_or_else(|map| Entries::clone(&map)),
            json => {
                let mut owned = Entries::default();
                for key in json.keys() {
                    if let Some(value) = json.find(&key) {
                        owned.insert(key, value?)?;
                    }
                }
                owned
            }
        };
        if Key::of(&key).is_some_and(|key| owned.places.contains_key(&key)) {
            return Err(EvalError::new(format!("insert failed: key {key} already exists")));
        }
        owned.insert(key, value)?;
        Ok(Map::Owned(Arc::new(owned)))
    }
}

// --- Entries ---

impl<'a> Entries<'a> {
    /// Adds an entry; one of the same key is replaced.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> Result<(), EvalError> {
        let name = Key::of(&key)
            .ok_or_else(|| EvalError::new(format!("unsupported key type: {}", key.type_name())))?;
        if let Some(at) = self.places.get(&name) {
            self.pairs[*at].1 = value;
        } else {
            self.places.insert(name, self.pairs.len());
            self.pairs.push((key, value));
        }
        Ok(())
    }

    /// Takes an entry away.
    pub(crate) fn remove(&mut self, key: &Value<'a>) {
        let Some(at) = Key::of(key).and_then(|key| self.places.remove(&key)) else {
            return;
        };
        self.pairs.remove(at);
        for place in self.places.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
    }

    /// With a value for all keys that are not there.
    #[must_use]
    pub fn with_default(mut self, value: Value<'a>) -> Self {
        self.default = Some(value);
        self
    }

    fn find(&self, key: &Key) -> Option<&Value<'a>> {
        self.places
            .get(key)
            .map(|at| &self.pairs[*at].1)
            .or(self.default.as_ref())
    }
}

impl<'a> From<Entries<'a>> for Value<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Value::Map(Map::Owned(Arc::new(entries)))
    }
}

// --- Key ---

impl Key {
    /// The key that a value is, if it can be one.
    pub(crate) fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Bool(truth) => Key::Bool(*truth),
            Value::Int(number) => Key::Number((*number).into()),
            Value::Uint(number) => Key::Number((*number).into()),
            #[expect(
                clippy::float_cmp,
                clippy::cast_possible_truncation,
                reason = "only whole numbers within range are keys"
            )]
            Value::Double(number) if number.trunc() == *number && number.abs() < 1.9e19 => {
                Key::Number(*number as i128)
            }
            Value::String(text) => Key::String((**text).into()),
            _ => return None,
        })
    }
}
