//! All entries of the `managedFields` of an object.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go EncodeObjectManagedFields, encodeManagedFields, sortEncodedManagedFields

use std::collections::{HashMap, hash_map};

use serde_json::{Map, Value};

use super::entry::{Entry, Identity, ManagedFieldsError, is_reset};

/// Who set which fields of an object; no identity is there twice.
#[derive(Clone, Debug, Default)]
pub(super) struct Record<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    origin: RecordOrigin,
}

/// Which object a record was read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordOrigin {
    /// The one that is stored.
    #[default]
    Live,
    /// The one that is written.
    New,
}

/// A record that borrows nothing from the objects any more, so that one of them can take it in.
pub(super) struct DetachedRecord {
    entries: Vec<DetachedEntry>,
    origin: RecordOrigin,
}

struct DetachedEntry {
    /// All but the set.
    entry: Map<String, Value>,
    fields: DetachedFields,
}

enum DetachedFields {
    Changed(Value),
    /// As in the entry at this position of the record that was read.
    Unchanged(usize),
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
                Ok(record) if !record.entries.is_empty() => Self {
                    origin: RecordOrigin::New,
                    ..record
                },
                _ => kept(),
            },
        }
    }

    pub(super) fn position(&self, identity: &Identity<'_>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.identity == *identity)
    }

    /// The record apart from the objects that it was read from.
    pub(super) fn detach(mut self) -> DetachedRecord {
        self.sort();
        let entries = self.entries.iter().map(|entry| DetachedEntry {
            entry: entry.encode_without_fields(),
            fields: match entry.source {
                Some(source) => DetachedFields::Unchanged(source.index),
                None => DetachedFields::Changed(entry.set.encode()),
            },
        });
        DetachedRecord {
            entries: entries.collect(),
            origin: self.origin,
        }
    }

    fn sort(&mut self) {
        self.entries.sort_by(|left, right| left.rank().cmp(&right.rank()));
    }

    /// The record as objects carry it; `None` if there is nothing to carry.
    pub(super) fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        self.sort();
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

// --- DetachedRecord ---

impl DetachedRecord {
    /// Puts the record into the object that is written. Sets that did not change are moved from the record that is there: they are
    /// trees of many small maps, and most of a record.
    pub(super) fn attach(self, object: &mut Value, live: Option<&Value>) {
        let mut there = take(object);
        let kept = live.and_then(list).and_then(Value::as_array);
        let kept = kept.map_or(&[][..], Vec::as_slice);
        let entries = self
            .entries
            .into_iter()
            .map(|DetachedEntry { mut entry, fields }| {
                let fields = match fields {
                    DetachedFields::Changed(fields) => fields,
                    DetachedFields::Unchanged(index) => {
                        let there = there.get_mut(index).and_then(|entry| entry.get_mut("fieldsV1"));
                        let kept = kept.get(index).and_then(|entry| entry.get("fieldsV1"));
                        match (there, kept, self.origin) {
                            (Some(there), _, RecordOrigin::New) => there.take(),
                            (Some(there), Some(kept), RecordOrigin::Live) if there == kept => there.take(),
                            (_, Some(kept), RecordOrigin::Live) => kept.clone(),
                            _ => Value::Null,
                        }
                    }
                };
                entry.insert("fieldsV1".to_owned(), fields);
                Value::Object(entry)
            });
        let entries: Vec<_> = entries.collect();
        set(object, (!entries.is_empty()).then_some(Value::Array(entries)));
    }
}

/// Takes the entries of a record out of an object.
fn take(object: &mut Value) -> Vec<Value> {
    let metadata = object.get_mut("metadata");
    let list = metadata.and_then(|metadata| metadata.get_mut("managedFields"));
    match list.map(Value::take) {
        Some(Value::Array(entries)) => entries,
        _ => Vec::new(),
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
                *metadata = Value::Object(Map::new());
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
