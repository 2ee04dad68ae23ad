//! All entries of the `managedFields` of an object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go EncodeObjectManagedFields, encodeManagedFields, sortEncodedManagedFields

use std::collections::{HashMap, hash_map};

use serde_json::Value;

use super::entry::{Entry, Identity, ManagedFieldsError, is_reset};

/// Who set which fields of an object; no identity is there twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Record<'a> {
    pub(super) entries: Vec<Entry<'a>>,
}

/// Whether a record could be read. Webhooks may change it; what they broke is put back.
pub fn check(object: &Value) -> Result<(), ManagedFieldsError> {
    Record::of(object).map(|_| ())
}

// --- Record ---

impl<'a> Record<'a> {
    /// Reads the record of an object.
    pub(super) fn of(object: &'a Value) -> Result<Self, ManagedFieldsError> {
        list(object).map_or(Ok(Self::default()), Self::decode)
    }

    /// The record a write starts from. A client may send one along; one that is absent, empty or broken
    /// counts as "leave it": clients that know nothing of records would lose it otherwise. A client asks to
    /// forget it by an empty list, or by one empty entry.
    pub(super) fn of_request(live: Option<&'a Value>, new: &'a Value, subresource: &str) -> Self {
        let kept = || {
            live.map(|live| Self::of(live).unwrap_or_default())
                .unwrap_or_default()
        };
        if !subresource.is_empty() {
            return kept();
        }
        match list(new) {
            None => kept(),
            Some(list) if is_reset(list) => Self::default(),
            Some(list) => match Self::decode(list) {
                Ok(record) if !record.entries.is_empty() => record,
                _ => kept(),
            },
        }
    }

    pub(super) fn position(&self, identity: &Identity<'_>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.identity == *identity)
    }

    /// The record as objects carry it; `None` if there is nothing to carry.
    pub(super) fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.entries.sort_by(|left, right| left.rank().cmp(&right.rank()));
        Some(Value::Array(self.entries.iter().map(Entry::encode).collect()))
    }

    fn decode(list: &'a Value) -> Result<Self, ManagedFieldsError> {
        let mut record = Self::default();
        match list {
            Value::Null => {}
            Value::Array(entries) => {
                let mut positions = HashMap::with_capacity(entries.len());
                for (index, entry) in entries.iter().enumerate() {
                    let entry = Entry::decode(entry, index)?;
                    match positions.entry(entry.identity.clone()) {
                        hash_map::Entry::Occupied(position) => record.entries[*position.get()] = entry,
                        hash_map::Entry::Vacant(position) => {
                            position.insert(record.entries.len());
                            record.entries.push(entry);
                        }
                    }
                }
            }
            _ => return Err(ManagedFieldsError::Malformed(0)),
        }
        Ok(record)
    }
}

fn list(object: &Value) -> Option<&Value> {
    object
        .get("metadata")?
        .get("managedFields")
        .filter(|list| !list.is_null())
}

/// Puts a record into an object, or takes it away.
pub(super) fn set(object: &mut Value, record: Option<Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    match record {
        Some(record) => {
            let metadata = object.entry("metadata").or_insert(Value::Null);
            if metadata.is_null() {
                *metadata = Value::Object(serde_json::Map::new());
            }
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.insert("managedFields".to_owned(), record);
            }
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.remove("managedFields");
            }
        }
    }
}

/// The record of an object as it stands there, read or not.
pub(super) fn raw(object: &Value) -> Option<&Value> {
    list(object)
}
