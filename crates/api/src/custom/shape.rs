//! Implements [`TypeSchema`](crate::type_schema::TypeSchema) for structural schemas: input of patches and apply.

use serde_json::Value;

use super::{
    node::{AdditionalProperties, Kind, Node, SchemaFlag},
    schema::Schema,
    validate::Format,
};
use crate::{
    schema::{StructRef, Type, schema as table},
    type_schema::{ListKind, Patch, ScalarKind, Shape, Struct, TypeSchema},
};

/// The type of kind and apiVersion.
static TEXT: Type = Type::String("string");

/// What is in a list of which nothing is said.
static ANY: Type = Type::Json;

/// The type of the metadata of objects.
pub(super) fn object_meta() -> &'static StructRef {
    static META: std::sync::OnceLock<StructRef> = std::sync::OnceLock::new();
    META.get_or_init(|| {
        table()
            .get("meta", "v1", "ObjectMeta")
            .expect("the table has the metadata of objects")
    })
}

/// The type of a field that every object has.
fn of_all(name: &str) -> Option<&'static dyn TypeSchema> {
    match name {
        "kind" | "apiVersion" => Some(&TEXT),
        "metadata" => Some(object_meta()),
        _ => None,
    }
}

// --- Schema ---

/// The whole object: beside what its schema states it has kind, apiVersion and metadata.
impl TypeSchema for Schema {
    fn shape(&self) -> Shape<'_> {
        Shape::Struct(self)
    }
}

impl Struct for Schema {
    fn name(&self) -> &'static str {
        ""
    }

    fn field(&self, name: &str) -> Option<&dyn TypeSchema> {
        of_all(name).or_else(|| self.node().field(name).map(|node| node as &dyn TypeSchema))
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        self.node().default_of(name)
    }

    fn patch(&self, _: &str) -> Patch<'_> {
        Patch::default()
    }

    fn is_atomic(&self) -> bool {
        self.node().is_atomic()
    }

    fn keeps_unknown(&self) -> bool {
        // The fields of all objects are named here: a schema that names none is not a free form.
        match self.node().additional() {
            AdditionalProperties::Unsaid => self.node().has_flag(SchemaFlag::Preserve),
            AdditionalProperties::Any => true,
            AdditionalProperties::Nothing | AdditionalProperties::Node(_) => false,
        }
    }
}

// --- Node ---

impl TypeSchema for Node {
    fn shape(&self) -> Shape<'_> {
        match self.kind {
            Kind::String | Kind::Integer | Kind::Number | Kind::Boolean => Shape::Scalar,
            Kind::Array => Shape::List {
                items: self.items().map_or(&ANY as &dyn TypeSchema, |items| items),
                kind: self.list_kind(),
            },
            Kind::Object if !self.has_flag(SchemaFlag::Embedded) && self.properties().len() == 0 => {
                match self.additional() {
                    AdditionalProperties::Node(values) => Shape::Map {
                        values,
                        atomic: self.has_flag(SchemaFlag::AtomicMap),
                    },
                    _ => Shape::Struct(self),
                }
            }
            Kind::Object => Shape::Struct(self),
            Kind::Any if self.properties().len() > 0 => Shape::Struct(self),
            Kind::Any => Shape::Unknown,
        }
    }

    fn scalar(&self) -> ScalarKind {
        match self.kind {
            Kind::Integer | Kind::Number => ScalarKind::Number,
            Kind::Boolean => ScalarKind::Boolean,
            // Texts of a format of their own are compared as they are.
            Kind::String => match self.extras().and_then(|extras| extras.format) {
                None | Some(Format::Byte) => ScalarKind::String,
                Some(_) => ScalarKind::Any,
            },
            Kind::Any | Kind::Object | Kind::Array => ScalarKind::Any,
        }
    }
}

impl Struct for Node {
    fn name(&self) -> &'static str {
        ""
    }

    fn field(&self, name: &str) -> Option<&dyn TypeSchema> {
        let of_all = of_all(name).filter(|_| self.has_flag(SchemaFlag::Embedded));
        of_all
            .map(|typed| typed as &dyn TypeSchema)
            .or_else(|| Node::field(self, name).map(|node| node as &dyn TypeSchema))
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        self.property(name)?.fallback()
    }

    fn patch(&self, _: &str) -> Patch<'_> {
        Patch::default()
    }

    fn is_atomic(&self) -> bool {
        self.has_flag(SchemaFlag::AtomicMap)
    }

    fn keeps_unknown(&self) -> bool {
        self.has_flag(SchemaFlag::Open)
    }
}

impl Node {
    fn list_kind(&self) -> ListKind<'_> {
        if self.has_flag(SchemaFlag::Set) {
            ListKind::Set
        } else if self.keys().is_empty() {
            ListKind::Atomic
        } else {
            ListKind::Map(self.keys())
        }
    }
}
