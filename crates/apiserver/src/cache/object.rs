//! A cached object: the stored bytes of one revision, and values derived from them.

use std::{fmt, sync::OnceLock};

use bytes::Bytes;
use k3_api::{
    decode,
    encode::{ResourceVersion, StoredObject},
    kinds::Kind,
    selector::label::Labels,
};
use k3_storage::{Key, Revision};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::{field_values::FieldValues, projection::FieldProjection};

/// One state of one object: the stored bytes, and values derived from them on demand.
pub(crate) struct CachedObject {
    /// Where it is stored.
    pub key: Key,
    /// The commit that wrote it.
    pub revision: Revision,
    bytes: Bytes,
    /// Where the metadata begin in `bytes`; 0 if they are not of our writing.
    metadata_offset: u32,
    labels: OnceLock<LabelList>,
    /// The values of the fields that the kind can be narrowed by.
    fields: OnceLock<FieldValues>,
}

fn strip<'b>(bytes: &'b [u8], beginning: &[u8]) -> Option<&'b [u8]> {
    bytes.strip_prefix(beginning)
}

/// Labels, sorted by key.
type LabelList = Box<[(Box<str>, Box<str>)]>;

/// The labels of an object.
pub(crate) struct ObjectLabels<'o>(&'o [(Box<str>, Box<str>)]);

// --- CachedObject ---

impl CachedObject {
    /// An object as it was stored by a commit.
    pub(crate) fn new(key: Key, bytes: Bytes, revision: Revision) -> Self {
        let metadata_offset = StoredObject::find(&bytes).map_or(0, |stored| stored.metadata_offset());
        CachedObject {
            key,
            revision,
            bytes,
            metadata_offset: u32::try_from(metadata_offset).unwrap_or_default(),
            labels: OnceLock::new(),
            fields: OnceLock::new(),
        }
    }

    /// The same object, with the values of its fields, which were read from the tree that was written.
    pub(super) fn with_fields(self, values: FieldValues) -> Self {
        CachedObject {
            fields: OnceLock::from(values),
            ..self
        }
    }

    /// The same object, of which nothing was read yet.
    pub(super) fn without_derived_state(&self) -> Self {
        CachedObject {
            key: self.key.clone(),
            revision: self.revision,
            bytes: self.bytes.clone(),
            metadata_offset: self.metadata_offset,
            labels: OnceLock::new(),
            fields: OnceLock::new(),
        }
    }

    /// Whether it was stored as an object of a kind.
    pub(crate) fn begins_as(&self, kind: &Kind) -> bool {
        let rest = strip(&self.bytes, b"{\"kind\":\"").and_then(|rest| strip(rest, kind.kind.as_bytes()));
        rest.and_then(|rest| strip(rest, b"\",\"apiVersion\":\""))
            .and_then(|rest| strip(rest, kind.group.as_bytes()))
            .and_then(|rest| strip(rest, b"/"))
            .and_then(|rest| strip(rest, kind.version.as_bytes()))
            .is_some_and(|rest| rest.starts_with(b"\""))
    }

    /// Appends the object as its clients see it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.write_at(out, self.revision);
    }

    /// Appends the object with another resource version: the last state of a deleted object.
    pub(crate) fn write_at(&self, out: &mut Vec<u8>, revision: Revision) {
        match StoredObject::at(&self.bytes, self.metadata_offset as usize) {
            Some(stored) => stored.write(out, ResourceVersion::new(revision.get())),
            None => out.extend_from_slice(&self.bytes),
        }
    }

    /// Appends the object as an item of a list.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        match StoredObject::at(&self.bytes, self.metadata_offset as usize) {
            Some(stored) => stored.write_item(out, ResourceVersion::new(self.revision.get())),
            None => out.extend_from_slice(&self.bytes),
        }
    }

    /// Appends the metadata alone, as if this commit had written the object; `None` if they are not of our writing.
    pub(crate) fn write_metadata(&self, out: &mut Vec<u8>, revision: Revision) -> Option<()> {
        let stored = StoredObject::at(&self.bytes, self.metadata_offset as usize)?;
        stored.write_metadata(out, ResourceVersion::new(revision.get()));
        Some(())
    }

    /// The object as its clients see it, as a tree.
    pub(crate) fn tree(&self) -> Value {
        self.tree_at(self.revision)
    }

    /// The same, as if another commit had written it.
    pub(crate) fn tree_at(&self, revision: Revision) -> Value {
        let mut tree = decode::tree_of(&self.bytes).unwrap_or_else(|error| {
            match self.undecrypted() {
                Some(reason) => tracing::debug!(key = %self.key, reason, "object is not decrypted"),
                None => {
                    tracing::error!(key = %self.key, %error, "stored object is not JSON; delete it or restore it from a snapshot");
                }
            }
            Value::Object(serde_json::Map::new())
        });
        if let Some(metadata) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::from(revision.to_string()));
        }
        tree
    }

    /// The tree of the named fields at any depth; without names, everything except managed fields.
    pub(crate) fn outline(&self, wants: Option<fn(&str) -> bool>) -> Value {
        let outline = wants.map_or(FieldProjection::Unmanaged, FieldProjection::Named);
        let mut reader = serde_json::Deserializer::from_slice(&self.bytes);
        // What is not JSON is complained about there.
        outline.deserialize(&mut reader).unwrap_or_else(|_| self.tree())
    }

    /// Why it is not the object that was written, if it could not be decrypted.
    pub(crate) fn undecrypted(&self) -> Option<String> {
        // What has metadata of our writing is decrypted.
        if self.metadata_offset > 0 {
            return None;
        }
        k3_encryption::undecrypted(&self.bytes)
    }

    /// Whether the stored bytes are an object at all. What has metadata of our writing is.
    pub(crate) fn is_readable(&self) -> bool {
        self.metadata_offset > 0 || decode::tree_of(&self.bytes).is_ok_and(|tree| tree.is_object())
    }

    /// The bytes that are stored.
    pub(crate) fn stored(&self) -> &Bytes {
        &self.bytes
    }

    /// How many bytes are stored.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The last part of the key.
    pub(crate) fn name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// The namespace in the key; empty if it has none.
    pub(crate) fn namespace(&self) -> &str {
        let mut parts = self.key.split('/').skip(4);
        match (parts.next(), parts.next()) {
            (Some(namespace), Some(_)) => namespace,
            _ => "",
        }
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> ObjectLabels<'_> {
        ObjectLabels(
            self.labels
                .get_or_init(|| read_labels(&self.bytes, self.metadata_offset as usize)),
        )
    }

    /// The values of the fields that the kind can be narrowed by. They are read once, by `read` from a tree of the object.
    pub(super) fn fields(&self, read: impl FnOnce(&Value) -> FieldValues) -> &FieldValues {
        self.fields.get_or_init(|| read(&self.outline(None)))
    }
}

/// Two are the same state if the same commit wrote the same bytes. A store that was restored from a backup uses revisions twice.
impl PartialEq for CachedObject {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision && self.key == other.key && self.bytes == other.bytes
    }
}

/// Reads only the labels. Metadata is stored first with sorted fields, so everything after the labels is ignored and what
/// precedes them is skipped.
fn read_labels(bytes: &[u8], metadata_offset: usize) -> LabelList {
    let mut found = LabelList::default();
    // From the brace that opens the metadata.
    if let Some(metadata) = metadata_offset
        .checked_sub(1)
        .and_then(|start| bytes.get(start..))
    {
        let mut reader = serde_json::Deserializer::from_slice(metadata);
        // It ends with an error when the labels are read, or cannot be there any more.
        let _ = reader.deserialize_map(LabelReader(&mut found));
    }
    found
}

/// Reads metadata up to the labels.
struct LabelReader<'f>(&'f mut LabelList);

impl<'de> Visitor<'de> for LabelReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        // Names of fields have nothing to unescape, so nothing is copied.
        while let Some(name) = fields.next_key::<&str>()? {
            if name == "labels" {
                *self.0 = fields.next_value::<ReadLabels>()?.0;
            }
            if name >= "labels" {
                return Err(A::Error::custom("the labels are read"));
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Labels as they stand in what is stored: sorted.
struct ReadLabels(LabelList);

impl<'de> Deserialize<'de> for ReadLabels {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Labels;
        impl<'de> Visitor<'de> for Labels {
            type Value = ReadLabels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadLabels, A::Error> {
                let mut labels = Vec::with_capacity(4);
                while let Some(label) = map.next_entry()? {
                    labels.push(label);
                }
                Ok(ReadLabels(labels.into()))
            }
        }
        reader.deserialize_map(Labels)
    }
}

// --- ObjectLabels ---

impl Labels for ObjectLabels<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let position = self.0.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.0[position].1)
    }

    fn visit(&self, see: &mut dyn FnMut(&str, &str)) {
        self.0.iter().for_each(|(key, value)| see(key, value));
    }
}

#[cfg(test)]
mod tests {
    use k3_api::encode::encode_stored;
    use serde_json::json;

    use super::*;

    fn object(tree: &Value) -> CachedObject {
        let bytes = encode_stored(tree.as_object().unwrap());
        let key = Key::try_new("/registry/core/pods/a/b").unwrap();
        CachedObject::new(key, bytes.into(), Revision::new(7))
    }

    #[test]
    fn reads_labels_at_any_position() {
        let tree = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
            "annotations": {"labels": "no", "x": "{\"y\": 1}"}, "finalizers": ["a"], "labels": {"b": "2", "a": "1"}, "name": "b",
        }});
        let pod = object(&tree);
        assert_eq!(
            (
                pod.labels().get("a"),
                pod.labels().get("b"),
                pod.labels().get("c")
            ),
            (Some("1"), Some("2"), None)
        );
        for metadata in [
            json!({}),
            json!({"name": "x", "uid": "labels"}),
            json!({"annotations": {"labels": "x"}}),
        ] {
            assert_eq!(
                object(&json!({"kind": "Pod", "metadata": metadata}))
                    .labels()
                    .get("labels"),
                None
            );
        }
    }

    #[test]
    fn reads_objects_as_deep_as_a_body_may_be() {
        let deep = (0..300).fold(json!(1), |inner, _| json!({"a": inner}));
        let tree = json!({"kind": "ControllerRevision", "metadata": {"name": "b", "finalizers": ["x/y"]}, "data": deep});
        let revision = object(&tree);
        assert_eq!(revision.tree()["metadata"]["finalizers"], json!(["x/y"]));
        assert_eq!(revision.outline(None)["data"], tree["data"]);
    }

    #[test]
    fn only_metadata_has_managed_fields() {
        let object = object(&json!({"kind": "W", "managedFields": "root",
            "metadata": {"name": "b", "managedFields": [{}]}, "spec": {"managedFields": 1}}));
        let outline = object.outline(None);
        assert_eq!(outline["managedFields"], "root");
        assert_eq!(outline["spec"]["managedFields"], 1);
        assert_eq!(outline["metadata"].get("managedFields"), None);
    }

    #[test]
    fn name_and_version_come_from_key_and_revision() {
        let pod = object(&json!({"kind": "Pod", "metadata": {"name": "b"}}));
        assert_eq!((pod.namespace(), pod.name()), ("a", "b"));
        let mut text = Vec::new();
        pod.write(&mut text);
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), pod.tree());
        assert_eq!(pod.tree()["metadata"]["resourceVersion"], "7");
    }
}
