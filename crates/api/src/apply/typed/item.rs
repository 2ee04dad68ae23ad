//! The path element that identifies a list item: by key fields or by value.

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/helpers.go listItemToPathElement, keyedAssociativeListItemToPathElement, setItemToPathElement

use std::borrow::Cow;

use serde_json::Value;

use super::{Atom, ListAtom, TypeRef};
use crate::{
    apply::{PathElement, element::sort_fields},
    go,
    type_schema::{ListKind, Shape, Struct},
};

/// Why an item has no identity.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadItem {
    #[error("invalid indexing of non-associative list")]
    AtomicList,
    #[error("associative list with keys may not have a null element")]
    NullInMap,
    #[error("associative list with keys may not have non-map elements")]
    NotAnObject,
    #[error(
        "associative list with keys has an element that omits all key fields {0} (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
    #[error("associative list without keys has an element that's a map type")]
    ObjectInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

// --- ListAtom ---

impl<'a> ListAtom<'a> {
    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListKind::Atomic
    }

    /// The step to an item of this list.
    pub(super) fn element(&self, item: &'a Value) -> Result<PathElement<'a>, BadItem> {
        match self.kind {
            ListKind::Atomic => Err(BadItem::AtomicList),
            ListKind::Map(keys) => keyed(keys, self.items, item),
            ListKind::Set => match item {
                Value::Object(_) => Err(BadItem::ObjectInSet),
                Value::Array(_) => Err(BadItem::ListInSet),
                Value::Null => Err(BadItem::NullInSet),
                scalar => Ok(PathElement::Item(Cow::Borrowed(scalar))),
            },
        }
    }
}

fn keyed<'a>(keys: &'a [String], items: TypeRef<'a>, item: &'a Value) -> Result<PathElement<'a>, BadItem> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err(BadItem::NullInMap),
        _ => return Err(BadItem::NotAnObject),
    };
    let mut key = Vec::with_capacity(keys.len());
    for name in keys {
        // A key field that is absent and has no default is left out: items with and without it differ.
        if let Some(value) = fields.get(name).or_else(|| default_of(items, name)) {
            key.push((Cow::Borrowed(name.as_str()), Cow::Borrowed(value)));
        }
    }
    if key.is_empty() && !keys.is_empty() {
        return Err(BadItem::NoKeys(quoted(keys)));
    }
    sort_fields(&mut key);
    Ok(PathElement::Key(key.into_boxed_slice()))
}

fn default_of<'a>(items: TypeRef<'a>, name: &str) -> Option<&'a Value> {
    let TypeRef::Known(typed) = items else { return None };
    let Shape::Struct(fields) = typed.shape() else {
        return None;
    };
    Struct::default_of(fields, name)
}

fn quoted(names: &[String]) -> String {
    let mut out = String::from("[");
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        go::push_quote(&mut out, name);
    }
    out.push(']');
    out
}

// --- Atom ---

impl<'a> Atom<'a> {
    /// The type of what a step leads to; `None` if it leads nowhere.
    pub(super) fn at(&self, element: &PathElement<'_>) -> Option<TypeRef<'a>> {
        match (self, element) {
            (Self::Map(map), PathElement::Field(name)) => Some(map.child(name)),
            (Self::Map(map), _) => Some(map.values),
            (Self::List(list), _) => Some(list.items),
            (Self::Scalar(_), _) => None,
        }
    }
}
