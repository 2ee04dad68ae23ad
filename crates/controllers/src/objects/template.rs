//! Pod templates, kept as raw JSON and parsed when they are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};

/// Label with the template hash of a Deployment's pods.
pub const TEMPLATE_HASH: &str = "pod-template-hash";

/// Without vowels and ambiguous digits, so that hashes form no words. upstream's SafeEncodeString uses the same alphabet.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A template of pods.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template {
    text: Box<RawValue>,
}

/// What pods get from a template.
#[derive(Debug)]
pub struct TemplateParts<'t> {
    /// The part of the metadata that pods get.
    pub metadata: TemplateMeta,
    /// The spec, as it is written.
    pub spec: Option<&'t RawValue>,
}

/// The metadata that pods get from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TemplateMeta {
    /// The labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// The annotations.
    pub annotations: BTreeMap<Box<str>, Box<str>>,
    /// The finalizers.
    pub finalizers: Vec<Box<str>>,
}

// --- Template ---

impl Template {
    /// A template that a controller makes.
    pub fn new(tree: &Value) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(tree).map(|text| Template { text })
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.text.get()
    }

    /// What pods get from it.
    pub fn parts(&self) -> serde_json::Result<TemplateParts<'_>> {
        #[derive(Deserialize)]
        struct TemplateFields<'t> {
            #[serde(borrow)]
            metadata: Option<&'t RawValue>,
            #[serde(borrow)]
            spec: Option<&'t RawValue>,
        }
        // A template that is `null` has no parts.
        let written: Option<TemplateFields<'_>> = serde_json::from_str(self.text.get())?;
        let metadata = written.as_ref().and_then(|written| written.metadata);
        let metadata = metadata.map(|metadata| kubecontroller::decode::from_str(metadata.get()));
        Ok(TemplateParts {
            metadata: metadata.transpose()?.unwrap_or_default(),
            spec: written.and_then(|written| written.spec),
        })
    }

    /// The labels of its pods. Empty if the template cannot be parsed: no pod matches such a template.
    pub fn labels(&self) -> BTreeMap<Box<str>, Box<str>> {
        self.parts()
            .map(|parts| parts.metadata.labels)
            .unwrap_or_default()
    }

    /// All of it.
    pub fn tree(&self) -> serde_json::Result<Value> {
        serde_json::from_str(self.text.get())
    }

    /// The canonical form in which templates are compared: without the hash label of a Deployment, which only its replica
    /// sets have, and without empty values.
    // upstream: pkg/controller/deployment/util/deployment_util.go EqualIgnoreHash
    pub fn canonical_tree(&self) -> serde_json::Result<Value> {
        let mut tree = self.tree()?;
        if let Some(meta) = tree.get_mut("metadata").and_then(Value::as_object_mut) {
            if let Some(labels) = meta.get_mut("labels").and_then(Value::as_object_mut) {
                labels.remove(TEMPLATE_HASH);
            }
            meta.retain(|_, value| !matches!(value, Value::Object(map) if map.is_empty()));
        }
        drop_empty_values(&mut tree);
        Ok(tree)
    }

    /// A short text that is another one for another template. `collisions` counts how often that turned out to be wrong.
    // upstream: pkg/controller/controller_utils.go ComputeHash; the hash function differs, the alphabet is that of SafeEncodeString
    pub fn hash(&self, collisions: Option<i32>) -> serde_json::Result<String> {
        // Texts of trees have their keys in order, so equal templates are equal texts.
        let meaning = self.canonical_tree()?.to_string();
        let more = collisions.map(i32::to_le_bytes);
        let bytes = meaning.bytes().chain(more.into_iter().flatten());
        let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let digits = hash.to_string();
        let letters = digits
            .bytes()
            .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]));
        Ok(letters.collect())
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text.get() == other.text.get()
    }
}

/// Removes nulls and empty lists.
fn drop_empty_values(tree: &mut Value) {
    let is_empty_value = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    match tree {
        Value::Object(fields) => drop_empty_fields(fields, is_empty_value),
        Value::Array(items) => items.iter_mut().for_each(drop_empty_values),
        _ => {}
    }
}

fn drop_empty_fields(fields: &mut Map<String, Value>, is_empty_value: impl Fn(&Value) -> bool) {
    fields.values_mut().for_each(drop_empty_values);
    fields.retain(|_, value| !is_empty_value(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn templates_are_equal_but_for_the_hash_and_what_is_empty_value() {
        let plain = template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c"}]}}"#);
        let same = [
            r#"{"metadata":{"labels":{"pod-template-hash":"x","app":"a"}},"spec":{"containers":[{"name":"c"}]}}"#,
            r#"{"spec":{"containers":[{"name":"c","args":[]}]},"metadata":{"creationTimestamp":null,"annotations":{},"labels":{"app":"a"}}}"#,
        ];
        for same in same.map(template) {
            assert_eq!(same.canonical_tree().unwrap(), plain.canonical_tree().unwrap());
            assert_eq!(same.hash(None).unwrap(), plain.hash(None).unwrap());
        }
        let others = [
            r#"{"metadata":{"labels":{"app":"b"}},"spec":{"containers":[{"name":"c"}]}}"#,
            r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c"}],"securityContext":{}}}"#,
        ];
        for other in others.map(template) {
            assert_ne!(other.canonical_tree().unwrap(), plain.canonical_tree().unwrap());
        }
    }

    #[test]
    fn hash_changes_with_collision_count() {
        let template = template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[]}}"#);
        let hashes = [None, Some(0), Some(1)].map(|collisions| template.hash(collisions).unwrap());
        for hash in &hashes {
            assert!(
                hash.len() <= 10 && hash.bytes().all(|letter| ALPHABET.contains(&letter)),
                "{hash}"
            );
        }
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
    }
}
