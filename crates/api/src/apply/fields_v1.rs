//! The serialized form of field sets in `managedFields` (`FieldsV1`).
//!
//! A JSON object per level, the steps as its keys, `.` for "this path too". A step with nothing below it is
//! `{}`. Siblings stand in the order of the set, not of their text: port 80 before port 443.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize.go ToJSON, FromJSON, emitContentsV1, readIterV1
// upstream: staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/fields.go FieldsToSet, SetToFields

use serde_json::{Map, Value};

use super::{
    element::{BadElement, PathElement},
    set::{FieldSet, FieldSetBuilder, Node},
};

/// Why a record of fields cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadFields {
    /// A level is not an object.
    #[error("fieldsV1 must be made of objects")]
    NotAnObject,
    /// A step cannot be read.
    #[error("parsing key as path element: {0}")]
    Element(#[from] BadElement),
}

/// A record that was read.
pub(crate) struct DecodedFieldSet<'a> {
    pub(crate) set: FieldSet<'a>,
    /// Whether the set is written the way it was read.
    pub(crate) canonical: bool,
}

/// Whether a level is a member itself, and what is below it.
struct FieldSetLevel<'a> {
    member: bool,
    below: FieldSet<'a>,
    canonical: bool,
}

// --- FieldSet ---

impl<'a> FieldSet<'a> {
    /// Reads a record. Steps of a kind that is not known are left out.
    pub fn decode(fields: &'a Value) -> Result<Self, BadFields> {
        Ok(Self::decode_record(fields)?.set)
    }

    /// The same, and whether to write it would give the same record.
    pub(crate) fn decode_record(fields: &'a Value) -> Result<DecodedFieldSet<'a>, BadFields> {
        let FieldSetLevel {
            below: set,
            canonical,
            member,
        } = read(fields)?;
        // The root has no owner: a mark on it is not written.
        Ok(DecodedFieldSet {
            canonical: canonical && (!member || set.is_empty()),
            set,
        })
    }

    /// Writes the record as a JSON tree.
    pub fn encode(&self) -> Value {
        let mut fields = Map::new();
        self.add_steps(&mut fields);
        Value::Object(fields)
    }

    /// Writes the record as JSON text, siblings in order.
    pub fn write(&self, out: &mut String) {
        out.push('{');
        self.write_steps(out);
        out.push('}');
    }

    /// Adds the steps of the top level to an object, with what is below them.
    fn add_steps(&self, fields: &mut Map<String, Value>) {
        for node in &self.nodes {
            let mut key = String::with_capacity(key_length(&node.element));
            node.element.encode(&mut key);
            let mut below = Map::new();
            if is_member_above_others(node) {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            node.below.add_steps(&mut below);
            fields.insert(key, Value::Object(below));
        }
    }

    /// Writes the steps of the top level, without the braces around them.
    fn write_steps(&self, out: &mut String) {
        let mut key = String::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            key.clear();
            node.element.encode(&mut key);
            out.push_str(&Value::String(std::mem::take(&mut key)).to_string());
            out.push_str(":{");
            if is_member_above_others(node) {
                out.push_str("\".\":{},");
            }
            node.below.write_steps(out);
            out.push('}');
        }
    }
}

/// Whether a step is in the set, and steps below it are too. Only then is it marked with a dot.
fn is_member_above_others(node: &Node<'_>) -> bool {
    node.member && !node.below.is_empty()
}

fn key_length(element: &PathElement<'_>) -> usize {
    match element {
        PathElement::Field(name) => name.len() + 2,
        _ => 32,
    }
}

fn read(fields: &Value) -> Result<FieldSetLevel<'_>, BadFields> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => {
            return Ok(FieldSetLevel {
                member: true,
                below: FieldSet::new(),
                canonical: false,
            });
        }
        _ => return Err(BadFields::NotAnObject),
    };
    let mut nodes = FieldSetBuilder::with_capacity(fields.len());
    let mut level = FieldSetLevel {
        member: false,
        below: FieldSet::new(),
        canonical: true,
    };
    for (key, value) in fields {
        if key == "." {
            level.member = true;
            level.canonical &= value.as_object().is_some_and(Map::is_empty);
            continue;
        }
        let element = match PathElement::decode(key) {
            Ok(element) => element,
            Err(BadElement::UnknownKind) => {
                level.canonical = false;
                continue;
            }
            Err(bad) => return Err(bad.into()),
        };
        let FieldSetLevel {
            member,
            below,
            canonical,
        } = read(value)?;
        level.canonical &= canonical && is_canonical(&element, key);
        nodes.push(Node {
            element,
            member,
            below,
        });
    }
    level.below = nodes.finish();
    // `{}` stands for the path itself: a level that is empty would not be there.
    level.canonical &= !(level.member && level.below.is_empty());
    level.member |= level.below.is_empty();
    Ok(level)
}

fn is_canonical(element: &PathElement<'_>, text: &str) -> bool {
    if let PathElement::Field(_) = element {
        return true;
    }
    let mut written = String::with_capacity(text.len());
    element.encode(&mut written);
    written == text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(set: &FieldSet<'_>) -> String {
        let mut out = String::new();
        set.write(&mut out);
        out
    }

    #[test]
    fn a_record_reads_and_writes_itself() {
        let record = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:ports": {
                ".": {},
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
                "k:{\"port\":443,\"protocol\":\"TCP\"}": {"f:name": {}},
            }, "f:finalizers": {"v:\"a\"": {}, "i:3": {}}},
        });
        let set = FieldSet::decode(&record).unwrap();
        assert_eq!(set.encode(), record);
        assert_eq!(
            text(&set),
            concat!(
                r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:finalizers":{"v:\"a\"":{},"i:3":{}},"#,
                r#""f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}},"#,
                r#""k:{\"port\":443,\"protocol\":\"TCP\"}":{"f:name":{}}}}}"#
            )
        );
    }

    #[test]
    fn steps_of_an_unknown_kind_are_left_out() {
        let record = json!({"f:a": {"x:new": {}}, "y:other": {}, "f:b": null});
        let set = FieldSet::decode(&record).unwrap();
        assert_eq!(set, FieldSet::of_fields(&[&["a"], &["b"]]));
    }

    #[test]
    fn a_record_that_would_be_written_otherwise_is_known() {
        let canonical = |record: Value| FieldSet::decode_record(&record).unwrap().canonical;
        assert!(canonical(
            json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"k:{\"a\":1}": {}}})
        ));
        assert!(canonical(json!({})));
        for record in [
            json!({"f:a": {".": {}}}),
            json!({"f:a": null}),
            json!({"f:a": {}, "x:b": {}}),
            json!({"k:{\"a\": 1}": {}}),
            json!({"v:1.0": {}}),
            json!({".": {}, "f:a": {}}),
            json!({"f:a": {".": {"f:x": {}}, "f:b": {}}}),
        ] {
            assert!(!canonical(record.clone()), "{record}");
        }
    }

    #[test]
    fn broken_records_are_refused() {
        for record in [
            json!([]),
            json!({"spec": {}}),
            json!({"f:a": 1}),
            json!({"k:{": {}}),
        ] {
            assert!(FieldSet::decode(&record).is_err(), "{record}");
        }
    }

    #[test]
    fn the_empty_set_is_an_empty_object() {
        assert_eq!(FieldSet::new().encode(), json!({}));
        assert_eq!(text(&FieldSet::new()), "{}");
        assert!(FieldSet::decode(&json!({".": {}})).unwrap().is_empty());
    }
}
