//! Declares the CEL type of a structural schema, with maximum sizes for the cost estimate.

// upstream: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go SchemaDeclType, WithTypeAndObjectMeta

use k3_cel::{DeclType, ListKind, ObjectDeclType, Shape};
use serde_json::Value;

use super::super::{
    node::{AdditionalProperties, Kind, Node, NodeRole, RareConstraints, SchemaFlag},
    validate::Format,
};

/// The largest request.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// The longest name of an object.
const MAX_NAME: u64 = 253;

/// A declared type, and the fewest bytes of a value of it in JSON.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredType {
    pub(crate) decl: DeclType,
    pub(crate) min: u64,
}

// --- DeclaredType ---

impl DeclaredType {
    fn new(shape: Shape, max: u64, min: u64) -> DeclaredType {
        DeclaredType {
            decl: DeclType::new(shape, max),
            min,
        }
    }

    /// How often such a value can be in a request.
    pub(crate) fn max(&self) -> u64 {
        MAX_REQUEST / (self.min + 1)
    }
}

/// What expressions see of values of a schema; `None` if they see nothing.
pub(crate) fn declare(node: &Node, role: NodeRole) -> Option<DeclaredType> {
    let bounds = node.extras().and_then(|extras| extras.bounds.as_deref());
    let size = |count: Option<i64>| count.map(as_size);
    let longest = size(bounds.and_then(|bounds| bounds.max_length));
    if node.has_flag(SchemaFlag::IntOrString) {
        let max = longest.map_or(MAX_REQUEST - 2, |longest| longest * 4);
        return Some(DeclaredType::new(Shape::IntOrString, max, 1));
    }
    Some(match node.kind {
        Kind::Any => return None,
        Kind::Boolean => DeclaredType::new(Shape::Bool, k3_cel::UNBOUNDED, 4),
        Kind::Integer => DeclaredType::new(Shape::Int, k3_cel::UNBOUNDED, 1),
        Kind::Number => DeclaredType::new(Shape::Double, k3_cel::UNBOUNDED, 1),
        Kind::String => text(node.extras(), longest),
        Kind::Array => {
            let items = node.items()?;
            let items = declare(items, items.role())?;
            let max = size(bounds.and_then(|bounds| bounds.max_items));
            let max = max.unwrap_or((MAX_REQUEST - 2) / (items.min + 1));
            let kind = if node.has_flag(SchemaFlag::Set) {
                ListKind::Set
            } else if node.keys().is_empty() {
                ListKind::Atomic
            } else {
                ListKind::Map(node.keys().into())
            };
            DeclaredType::new(Shape::List(items.decl.into(), kind), max, 2)
        }
        Kind::Object => {
            if let AdditionalProperties::Node(values) = node.additional() {
                let values = declare(values, values.role())?;
                let max = size(bounds.and_then(|bounds| bounds.max_properties));
                let max = max.unwrap_or((MAX_REQUEST - 2) / (values.min + 6));
                let keys = DeclType::from(Shape::String);
                return Some(DeclaredType::new(
                    Shape::Map(keys.into(), values.decl.into()),
                    max,
                    2,
                ));
            }
            object(node, role)
        }
    })
}

fn text(extras: Option<&RareConstraints>, longest: Option<u64>) -> DeclaredType {
    match extras.and_then(|extras| extras.format) {
        Some(Format::Byte) => DeclaredType::new(Shape::Bytes, longest.unwrap_or(MAX_REQUEST - 2), 2),
        Some(Format::Duration) => DeclaredType::new(Shape::Duration, 32, 3),
        Some(Format::Date) => DeclaredType::new(Shape::Date, 12, 12),
        Some(Format::DateTime) => DeclaredType::new(Shape::Timestamp, 32, 21),
        _ => {
            let options = extras.map_or(&[] as &[Value], |extras| &extras.options);
            let option = options.iter().filter_map(Value::as_str).map(str::len).max();
            let max = match (longest, options.is_empty()) {
                (Some(longest), _) => longest * 4,
                (None, false) => option.unwrap_or_default() as u64,
                (None, true) => MAX_REQUEST - 2,
            };
            DeclaredType::new(Shape::String, max, 2)
        }
    }
}

/// A limit of a schema; a negative one allows nothing, as zero does.
fn as_size(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn object(node: &Node, role: NodeRole) -> DeclaredType {
    let required = node
        .extras()
        .map_or(&[] as &[Box<str>], |extras| &extras.required);
    let mut fields = ObjectDeclType::new("object");
    let mut min = 2;
    let mut add = |name: &str, found: Option<DeclaredType>, defaulted: bool| {
        let Some(found) = found else {
            return;
        };
        if !defaulted && required.iter().any(|one| **one == *name) {
            min += name.len() as u64 + found.min + 4;
        }
        let taken = std::mem::replace(&mut fields, ObjectDeclType::new("object"));
        fields = taken.field(name, found.decl);
    };
    let text = |max: u64| Some(DeclaredType::new(Shape::String, max, 2));
    let hidden = |name: &str| role == NodeRole::Resource && super::super::prune::is_object_field(name);
    for (name, property) in node.properties().filter(|(name, _)| !hidden(name)) {
        let found = declare(property, property.role());
        add(name, found, property.fallback().is_some());
    }
    if role == NodeRole::Resource {
        add("kind", text(MAX_REQUEST - 2), false);
        add("apiVersion", text(MAX_REQUEST - 2), false);
        let metadata = node.property("metadata");
        let longest = |name: &str, max: u64| {
            let extras = metadata
                .and_then(|node| node.property(name))
                .and_then(Node::extras);
            let bounds = extras.and_then(|extras| extras.bounds.as_deref());
            let given = bounds.and_then(|bounds| bounds.max_length);
            given.map_or(max, |given| max.min(as_size(given)))
        };
        let names = ObjectDeclType::new("object")
            .field(
                "name",
                DeclType::new(Shape::String, longest("name", MAX_NAME) * 4),
            )
            .field(
                "generateName",
                DeclType::new(Shape::String, longest("generateName", MAX_NAME - 1) * 4),
            );
        let metadata = DeclaredType {
            decl: DeclType::object(names),
            min: 2,
        };
        add("metadata", Some(metadata), false);
    }
    DeclaredType {
        decl: DeclType::object(fields),
        min,
    }
}
