//! Pruning: removes fields that the structural schema does not specify.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go PruneWithOptions, prune

use serde_json::Value;

use super::node::{AdditionalProperties, Node, SchemaFlag};
use crate::limits::{self, MAX_PATH_BYTES};

/// Paths of fields that are not known which are collected. Clients are shown fewer.
const MOST_UNKNOWN: usize = 1000;

/// Fields every object has, which its schema need not name.
const OF_ALL: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether a field is one every object has.
pub(super) fn is_of_all(name: &str) -> bool {
    OF_ALL.contains(&name)
}

/// Takes the fields out of an object that its schema does not know, and gives the paths to them, sorted.
pub(super) fn prune(object: &mut Value, node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut pruning = Pruning {
        path: String::new(),
        unknown: &mut unknown,
    };
    pruning.level(object, Some(node), true, KeepUnknownFields::Known);
    unknown.sort();
    unknown
}

/// Whether a value has fields that its schema does not know. `whole`: whether it is an object with kind and metadata.
pub(crate) fn unknown(value: &Value, node: &Node, whole: bool) -> bool {
    let mut pruned = value.clone();
    let mut pruning = Pruning {
        path: String::new(),
        unknown: &mut Vec::new(),
    };
    pruning.level(&mut pruned, Some(node), whole, KeepUnknownFields::Known);
    pruned != *value
}

/// What happens to fields that are not known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeepUnknownFields {
    Known,
    All,
}

struct Pruning<'u> {
    /// The way here.
    path: String,
    unknown: &'u mut Vec<String>,
}

impl Pruning<'_> {
    fn level(&mut self, value: &mut Value, node: Option<&Node>, whole: bool, keep: KeepUnknownFields) {
        let keep = match node {
            Some(node) if node.has_flag(SchemaFlag::Preserve) => KeepUnknownFields::All,
            None if keep == KeepUnknownFields::All => return,
            _ => keep,
        };
        match value {
            Value::Object(fields) => {
                let embedded = whole || node.is_some_and(|node| node.has_flag(SchemaFlag::Embedded));
                fields.retain(|name, value| {
                    if embedded && is_of_all(name) {
                        return true;
                    }
                    let below = match node {
                        None => SchemaOfField::Unknown,
                        Some(node) => below(node, name),
                    };
                    match below {
                        SchemaOfField::Known(node) => {
                            let length = self.enter(name);
                            self.level(value, node, false, KeepUnknownFields::Known);
                            self.path.truncate(length);
                            true
                        }
                        SchemaOfField::Unknown if keep == KeepUnknownFields::All => true,
                        SchemaOfField::Unknown => {
                            // At the top these are none of the user's business.
                            if node.is_none() || !is_of_all(name) || !self.path.is_empty() {
                                let length = self.enter(name);
                                if self.unknown.len() < MOST_UNKNOWN {
                                    self.unknown
                                        .push(limits::cut(&self.path, MAX_PATH_BYTES).into_owned());
                                }
                                self.path.truncate(length);
                            }
                            false
                        }
                    }
                });
            }
            Value::Array(items) => {
                let node = node.and_then(Node::items);
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.extend(["[", &index.to_string(), "]"]);
                    self.level(item, node, false, keep);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Descends into a field; returns the length of the path before.
    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }
}

/// What a schema states of a field.
enum SchemaOfField<'n> {
    /// The field stays; its value is of this schema, or of one that knows nothing.
    Known(Option<&'n Node>),
    Unknown,
}

fn below<'n>(node: &'n Node, name: &str) -> SchemaOfField<'n> {
    match (node.property(name), node.additional()) {
        (Some(property), _) => SchemaOfField::Known(Some(property)),
        (None, AdditionalProperties::Node(node)) => SchemaOfField::Known(Some(node)),
        (None, AdditionalProperties::Any | AdditionalProperties::Nothing) => SchemaOfField::Known(None),
        (None, AdditionalProperties::Unsaid) => SchemaOfField::Unknown,
    }
}

/// Takes out fields that are `null` where that is no value, unless a default replaces them.
pub(super) fn prune_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let node = node.and_then(|node| node.field(name));
            if value.is_null() {
                return node
                    .is_none_or(|node| node.has_flag(SchemaFlag::Nullable) || node.fallback().is_some());
            }
            prune_nulls(value, node);
            true
        }),
        Value::Array(items) => {
            let node = node.and_then(Node::items);
            for item in items {
                prune_nulls(item, node);
            }
        }
        _ => {}
    }
}
