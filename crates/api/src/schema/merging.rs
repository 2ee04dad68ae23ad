//! Implements [`TypeSchema`](crate::type_schema::TypeSchema) for the type table: input of patches and apply.

use super::field::{Field, ListMergeKind, StructRef, Type};
use crate::type_schema::{self, ListKind, Patch, ScalarKind, Shape, TypeSchema};
use serde_json::Value;

/// The items of lists that are messages of their own.
static TEXT: Type = Type::String("string");

/// What is in an object that apply replaces as a whole, whatever it is.
static ANY: Type = Type::Json;

// --- Type ---

impl TypeSchema for Type {
    fn shape(&self) -> Shape<'_> {
        shape_of(self, &ListMergeKind::Atomic)
    }

    fn scalar(&self) -> ScalarKind {
        match self {
            Type::String(_) | Type::Bytes | Type::Time | Type::MicroTime | Type::Duration => {
                ScalarKind::String
            }
            Type::Int32(_) | Type::Int64(_) | Type::Double => ScalarKind::Number,
            Type::Bool(_) => ScalarKind::Boolean,
            _ => ScalarKind::Any,
        }
    }
}

// --- Field ---

impl TypeSchema for Field {
    fn shape(&self) -> Shape<'_> {
        match &self.ty {
            Type::Map(values, _) => Shape::Map {
                values: &**values,
                atomic: self.atomic,
            },
            ty => shape_of(ty, &self.listing),
        }
    }

    fn scalar(&self) -> ScalarKind {
        self.ty.scalar()
    }
}

fn shape_of<'s>(ty: &'s Type, listing: &'s ListMergeKind) -> Shape<'s> {
    match ty {
        Type::Struct(of) => Shape::Struct(of),
        Type::List(items) => Shape::List {
            items: &**items,
            kind: list_kind(listing),
        },
        Type::Strings(_) => Shape::List {
            items: &TEXT,
            kind: ListKind::Atomic,
        },
        Type::Map(values, _) => Shape::Map {
            values: &**values,
            atomic: false,
        },
        Type::RawExtension => Shape::Map {
            values: &ANY,
            atomic: true,
        },
        Type::FieldsV1 | Type::Json | Type::SchemaOrBool | Type::SchemaOrArray | Type::SchemaOrStrings => {
            Shape::Unknown
        }
        Type::String(_)
        | Type::Int32(_)
        | Type::Int64(_)
        | Type::Bool(_)
        | Type::Double
        | Type::Bytes
        | Type::Time
        | Type::MicroTime
        | Type::Duration
        | Type::Quantity
        | Type::IntOrString => Shape::Scalar,
    }
}

fn list_kind(listing: &ListMergeKind) -> ListKind<'_> {
    match listing {
        ListMergeKind::Atomic => ListKind::Atomic,
        ListMergeKind::Set => ListKind::Set,
        ListMergeKind::Keys(keys) => ListKind::Map(keys),
    }
}

// --- StructRef ---

impl TypeSchema for StructRef {
    fn shape(&self) -> Shape<'_> {
        Shape::Struct(self)
    }
}

impl type_schema::Struct for StructRef {
    fn name(&self) -> &str {
        self.get().name
    }

    fn field(&self, name: &str) -> Option<&dyn TypeSchema> {
        self.get().named(name).map(|field| field as &dyn TypeSchema)
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        self.get().named(name)?.default.as_ref()
    }

    fn patch(&self, name: &str) -> Patch<'_> {
        self.get()
            .named(name)
            .map_or_else(Patch::default, |field| field.patch)
    }

    fn is_atomic(&self) -> bool {
        self.atomic.unwrap_or_else(|| self.get().atomic)
    }

    fn keeps_unknown(&self) -> bool {
        false
    }
}
