//! The schema of a version, kept as text until it is needed.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/convert.go NewStructural

use std::sync::OnceLock;

use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::node::Node;
use crate::strategy::Tree;

/// What people read, and what no object is validated by.
const DOCUMENTATION_KEYS: [&str; 4] = ["description", "title", "example", "externalDocs"];

/// A schema.
pub(super) struct Schema {
    /// Its text, without documentation, until it is compiled.
    text: Mutex<Vec<u8>>,
    node: OnceLock<Node>,
    /// Whether apply takes fields that are not known, wherever they stand.
    open: bool,
}

// --- Schema ---

impl Schema {
    /// The schema of a version of the definition with this spec.
    pub(super) fn new(version: &Value, spec: &Value) -> Self {
        let schema = version.at("schema").at("openAPIV3Schema");
        let text = serde_json::to_vec(&bare(schema)).unwrap_or_default();
        Schema {
            text: Mutex::new(text),
            node: OnceLock::new(),
            open: spec.flag("preserveUnknownFields"),
        }
    }

    /// The schema, compiled. The first call does it.
    pub(super) fn node(&self) -> &Node {
        self.node.get_or_init(|| {
            let text = std::mem::take(&mut *self.text.lock());
            let schema = serde_json::from_slice(&text).unwrap_or_default();
            if self.open {
                Node::read_open(&schema)
            } else {
                Node::read(&schema)
            }
        })
    }
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

/// A schema without its documentation. Where names stand that users choose nothing is left out.
fn bare(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let kept = fields
        .iter()
        .filter(|(name, _)| !DOCUMENTATION_KEYS.contains(&name.as_str()));
    let fields: Map<_, _> = kept
        .map(|(name, value)| {
            let value = match (name.as_str(), value) {
                ("properties", Value::Object(named)) => {
                    let bare = named.iter().map(|(name, schema)| (name.clone(), bare(schema)));
                    Value::Object(bare.collect())
                }
                ("items" | "additionalProperties" | "not", schema) => bare(schema),
                ("allOf" | "anyOf" | "oneOf", Value::Array(_)) => {
                    schema.items(name).iter().map(bare).collect()
                }
                _ => value.clone(),
            };
            (name.clone(), value)
        })
        .collect();
    Value::Object(fields)
}
