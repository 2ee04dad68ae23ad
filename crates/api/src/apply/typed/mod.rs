//! Operations on objects of a known type: validate, list fields, merge, compare, remove.
//!
//! A type decides how two values meet: structs and granular maps field by field, lists by key or by value,
//! atomic parts as one. Where nothing is known the value itself decides: objects are granular, lists atomic.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/schema/elements.go Atom, TypeRef, Resolve
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/helpers.go deduceAtom

mod compare;
mod error;
mod field_set;
mod item;
mod merge;
mod reconcile;
mod remove;
#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;
mod validate;

use serde_json::Value;

use crate::type_schema::{ListKind, ScalarKind, Shape, Struct, TypeSchema};

pub(crate) use self::{
    compare::compare_objects,
    field_set::named_field_set,
    merge::{copy_without, merge_objects},
    reconcile::{reconcile, with_named_fields},
};
pub use self::{
    compare::{Comparison, compare},
    error::{TypeError, TypeErrors},
    field_set::field_set,
    merge::merge,
    remove::{extract_items, remove_items},
    validate::{DuplicatePolicy, validate},
};

/// A type, or what stands for one where none was declared.
#[derive(Clone, Copy)]
pub(crate) enum TypeRef<'a> {
    /// Declared.
    Known(&'a dyn TypeSchema),
    /// Not known; the value decides.
    Deduced,
    /// Inside a list of which nothing is known: replaced as one.
    Atomic,
    /// A field that the type does not have.
    Undeclared,
}

/// A type, one level deep, as it applies to one value.
#[derive(Clone, Copy)]
pub(crate) enum Atom<'a> {
    Scalar(ScalarKind),
    List(ListAtom<'a>),
    Map(MapAtom<'a>),
}

#[derive(Clone, Copy)]
pub(crate) struct ListAtom<'a> {
    pub(crate) items: TypeRef<'a>,
    pub(crate) kind: ListKind<'a>,
}

#[derive(Clone, Copy)]
pub(crate) struct MapAtom<'a> {
    fields: Option<&'a dyn Struct>,
    /// The type of the fields that have no own one.
    values: TypeRef<'a>,
    pub(crate) atomic: bool,
}

/// A field that is passed over, with all below it: the names that lead to it from here.
pub(crate) type SkippedPath = &'static [&'static str];

/// The record itself is not part of what it records.
pub(crate) const MANAGED_FIELDS: SkippedPath = &["metadata", "managedFields"];

/// What remains to be skipped below a field; `None` if the field itself is skipped.
pub(crate) fn skip_below(skip: SkippedPath, name: &str) -> Option<SkippedPath> {
    match skip {
        [last] if *last == name => None,
        [first, rest @ ..] if *first == name => Some(rest),
        _ => Some(&[]),
    }
}

// --- TypeRef ---

impl<'a> TypeRef<'a> {
    /// What the type is for this value. Null fits every type: it is taken for an object where the type
    /// leaves it open.
    pub(crate) fn resolve(self, value: &Value) -> Atom<'a> {
        match self.declared() {
            Some(atom) => atom,
            None => self.deduce(value),
        }
    }

    /// What the type states without looking at a value; `None` if it leaves all to the value.
    pub(crate) fn declared(self) -> Option<Atom<'a>> {
        let Self::Known(typed) = self else { return None };
        Some(match typed.shape() {
            Shape::Unknown => return None,
            Shape::Scalar => Atom::Scalar(typed.scalar()),
            Shape::Struct(fields) => Atom::Map(MapAtom {
                fields: Some(fields),
                values: if fields.keeps_unknown() {
                    Self::Deduced
                } else {
                    Self::Undeclared
                },
                atomic: fields.is_atomic(),
            }),
            Shape::Map { values, atomic } => Atom::Map(MapAtom {
                fields: None,
                values: Self::Known(values),
                atomic,
            }),
            Shape::List { items, kind } => Atom::List(ListAtom {
                items: Self::Known(items),
                kind,
            }),
        })
    }

    /// Whether two values are taken for different types, because the type leaves it open.
    pub(crate) fn distinguishes(self, left: &Value, right: &Value) -> bool {
        form(left) != form(right) && self.declared().is_none()
    }

    fn deduce(self, value: &Value) -> Atom<'a> {
        let (values, atomic) = match self {
            Self::Known(_) | Self::Deduced => (Self::Deduced, false),
            Self::Atomic | Self::Undeclared => (Self::Atomic, true),
        };
        match value {
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Atom::Scalar(ScalarKind::Any),
            Value::Array(_) => Atom::List(ListAtom {
                items: Self::Atomic,
                kind: ListKind::Atomic,
            }),
            Value::Object(_) | Value::Null => Atom::Map(MapAtom {
                fields: None,
                values,
                atomic,
            }),
        }
    }
}

fn form(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(_) => 2,
        Value::Object(_) => 3,
    }
}

// --- MapAtom ---

impl<'a> MapAtom<'a> {
    /// The type of a field.
    pub(crate) fn child(&self, name: &str) -> TypeRef<'a> {
        self.named(name).unwrap_or(self.values)
    }

    /// The type of a field that was declared by name.
    pub(crate) fn named(&self, name: &str) -> Option<TypeRef<'a>> {
        self.fields
            .and_then(|fields| fields.field(name))
            .map(TypeRef::Known)
    }
}
