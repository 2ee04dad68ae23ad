//! One entry of `managedFields`: the fields that one field manager set by one operation.

// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go DecodeManagedFields, BuildManagerIdentifier, decodeVersionedSet
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go isResetManagedFields

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::{
    apply::{BadFields, FieldSet},
    go,
    time::Time,
};

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By applying a configuration.
    Apply,
    /// By any other verb.
    Update,
}

/// Who set fields, and how. Two writes with the same identity share an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity<'a> {
    pub(super) manager: Cow<'a, str>,
    pub(super) operation: Operation,
    /// Empty for the object itself.
    pub(super) subresource: Cow<'a, str>,
    /// Only of updates: an applier is the same in every version.
    pub(super) api_version: Option<Cow<'a, str>>,
}

/// What one manager set.
#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub(super) identity: Identity<'a>,
    /// The version the fields are named in.
    pub(super) api_version: Cow<'a, str>,
    pub(super) set: FieldSet<'a>,
    pub(super) time: Option<Time>,
    /// The set as it was read: what is to be written as long as the set is the same.
    pub(super) source: Option<EntrySource<'a>>,
}

/// Where the set of an entry was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySource<'a> {
    pub(super) fields: &'a Value,
    /// The position of the entry in its record.
    pub(super) index: usize,
}

/// Why an entry cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagedFieldsError {
    /// The record is not a list of objects, or a field has a wrong type.
    #[error("managedFields entry {0} is malformed")]
    Malformed(usize),
    /// Neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No version.
    #[error("apiVersion must not be empty")]
    NoApiVersion,
    /// No type of fields.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// A type of fields that is unknown.
    #[error("invalid fieldsType {kind} in managed fields entry {index}")]
    FieldsType {
        /// The value, quoted.
        kind: String,
        /// Which entry.
        index: usize,
    },
    /// The fields cannot be read.
    #[error("error decoding set: {0}")]
    Fields(#[from] BadFields),
}

// --- Operation ---

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

// --- Identity ---

impl Identity<'_> {
    /// The text that orders managers in messages.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("{");
        let fields = [
            ("manager", self.manager.as_ref()),
            ("operation", self.operation.name()),
            ("apiVersion", self.api_version.as_deref().unwrap_or_default()),
            ("subresource", self.subresource.as_ref()),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            go::push_json_string(&mut out, name);
            out.push(':');
            go::push_json_string(&mut out, value);
        }
        out.push('}');
        out
    }

    pub(super) fn into_owned(self) -> Identity<'static> {
        Identity {
            manager: Cow::Owned(self.manager.into_owned()),
            operation: self.operation,
            subresource: Cow::Owned(self.subresource.into_owned()),
            api_version: self.api_version.map(|version| Cow::Owned(version.into_owned())),
        }
    }
}

// --- Entry ---

impl<'a> Entry<'a> {
    pub(super) fn decode(entry: &'a Value, index: usize) -> Result<Self, ManagedFieldsError> {
        let fields = entry.as_object().ok_or(ManagedFieldsError::Malformed(index))?;
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(value) => value.as_str().ok_or(ManagedFieldsError::Malformed(index)),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(ManagedFieldsError::Operation),
        };
        let api_version = Some(text("apiVersion")?).filter(|version| !version.is_empty());
        let api_version = Cow::Borrowed(api_version.ok_or(ManagedFieldsError::NoApiVersion)?);
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(ManagedFieldsError::NoFieldsType(index)),
            other => {
                let mut kind = String::new();
                go::push_quote(&mut kind, other);
                return Err(ManagedFieldsError::FieldsType { kind, index });
            }
        }
        let time = match text("time")? {
            "" => None,
            time => Some(Time::parse(time).map_err(|_| ManagedFieldsError::Malformed(index))?),
        };
        let (set, source) = match fields.get("fieldsV1") {
            None | Some(Value::Null) => (FieldSet::new(), None),
            Some(fields) => {
                let decoded = FieldSet::decode_record(fields)?;
                (
                    decoded.set,
                    decoded.canonical.then_some(EntrySource { fields, index }),
                )
            }
        };
        let identity = Identity {
            manager: Cow::Borrowed(text("manager")?),
            operation,
            subresource: Cow::Borrowed(text("subresource")?),
            api_version: (operation == Operation::Update).then(|| api_version.clone()),
        };
        Ok(Self {
            identity,
            api_version,
            set,
            time,
            source,
        })
    }

    pub(super) fn encode(&self) -> Value {
        let fields = self
            .source
            .map_or_else(|| self.set.encode(), |source| source.fields.clone());
        let mut entry = self.encode_without_fields();
        entry.insert("fieldsV1".to_owned(), fields);
        Value::Object(entry)
    }

    /// All of the entry but its set.
    pub(super) fn encode_without_fields(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                entry.insert(name.to_owned(), Value::String(value.to_owned()));
            }
        };
        put("manager", &self.identity.manager);
        put("operation", self.identity.operation.name());
        put("apiVersion", &self.api_version);
        if let Some(time) = self.time {
            put("time", &time.to_string());
        }
        put("fieldsType", "FieldsV1");
        put("subresource", &self.identity.subresource);
        entry
    }

    /// What orders the entries of a record.
    pub(super) fn rank(&self) -> (Operation, i64, &str, &str, &str) {
        let seconds = self.time.map_or(0, Time::unix_seconds);
        let Identity {
            manager,
            operation,
            subresource,
            ..
        } = &self.identity;
        (*operation, seconds, manager, &self.api_version, subresource)
    }
}

/// Whether a list asks for the record to be forgotten: it is empty, or has one entry that is empty.
pub(super) fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only
            .as_object()
            .is_some_and(|entry| entry.values().all(|value| *value == json!(null))),
        _ => false,
    }
}
