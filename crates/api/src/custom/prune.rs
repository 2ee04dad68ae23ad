//! Pruning: removes fields that the structural schema does not specify.

// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go PruneWithOptions, prune

use serde_json::Value;

use super::node::{AdditionalProperties, Node, NodeRole, SchemaFlag};
use crate::limits::{self, MAX_PATH_BYTES};

/// The maximum number of paths of pruned fields that are collected. Warnings to clients contain fewer.
const MAX_UNKNOWN: usize = 1000;

/// Fields that every object has, so that its schema need not specify them.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Whether every object has this field at its root.
pub(super) fn is_object_field(name: &str) -> bool {
    OBJECT_FIELDS.contains(&name)
}

/// Removes the fields that the schema does not specify, and returns their paths, sorted.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go PruneWithOptions
pub(super) fn prune(object: &mut Value, node: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut pruning = Pruning {
        path: String::new(),
        unknown: &mut unknown,
    };
    pruning.prune_value(object, Some(node), NodeRole::Resource, UnknownFields::Prune);
    unknown.sort();
    unknown
}

/// Whether a value has fields that its schema does not specify.
pub(crate) fn has_unknown_fields(value: &Value, node: &Node, role: NodeRole) -> bool {
    let mut pruned = value.clone();
    let mut pruning = Pruning {
        path: String::new(),
        unknown: &mut Vec::new(),
    };
    pruning.prune_value(&mut pruned, Some(node), role, UnknownFields::Prune);
    pruned != *value
}

/// What to do with unknown fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownFields {
    Prune,
    /// `x-kubernetes-preserve-unknown-fields: true`
    Preserve,
}

struct Pruning<'u> {
    /// The path of the current value.
    path: String,
    unknown: &'u mut Vec<String>,
}

impl Pruning<'_> {
    fn prune_value(
        &mut self,
        value: &mut Value,
        node: Option<&Node>,
        role: NodeRole,
        unknown_fields: UnknownFields,
    ) {
        let unknown_fields = match node {
            Some(node) if node.has_flag(SchemaFlag::Preserve) => UnknownFields::Preserve,
            None if unknown_fields == UnknownFields::Preserve => return,
            _ => unknown_fields,
        };
        match value {
            Value::Object(fields) => {
                let is_resource =
                    role == NodeRole::Resource || node.is_some_and(|node| node.role() == NodeRole::Resource);
                fields.retain(|name, value| {
                    if is_resource && is_object_field(name) {
                        return true;
                    }
                    let field_schema = match node {
                        None => SchemaOfField::Unknown,
                        Some(node) => schema_of_field(node, name),
                    };
                    match field_schema {
                        SchemaOfField::Specified(node) => {
                            let length = self.enter(name);
                            self.prune_value(value, node, NodeRole::Field, UnknownFields::Prune);
                            self.path.truncate(length);
                            true
                        }
                        SchemaOfField::Unknown if unknown_fields == UnknownFields::Preserve => true,
                        SchemaOfField::Unknown => {
                            // A root whose schema is unknown still has these fields: no warning for them.
                            if node.is_none() || !is_object_field(name) || !self.path.is_empty() {
                                let length = self.enter(name);
                                if self.unknown.len() < MAX_UNKNOWN {
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
                    self.prune_value(item, node, NodeRole::Field, unknown_fields);
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

/// Whether a schema specifies a field.
enum SchemaOfField<'n> {
    /// The field is kept. Its value is pruned with this schema; without one, all its fields are unknown.
    Specified(Option<&'n Node>),
    Unknown,
}

fn schema_of_field<'n>(node: &'n Node, name: &str) -> SchemaOfField<'n> {
    match (node.property(name), node.additional()) {
        (Some(property), _) => SchemaOfField::Specified(Some(property)),
        (None, AdditionalProperties::Node(node)) => SchemaOfField::Specified(Some(node)),
        (None, AdditionalProperties::Any | AdditionalProperties::Nothing) => SchemaOfField::Specified(None),
        (None, AdditionalProperties::Unsaid) => SchemaOfField::Unknown,
    }
}

/// Removes fields that are `null` and not nullable, unless a default replaces them.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/prunenulls.go PruneNonNullableNullsWithoutDefaults
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
