//! Removes fields from an object, or extracts them (`RemoveItems`, `ExtractItems`).

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/remove.go removeItemsWithSchema
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/typed.go RemoveItems, ExtractItems

use serde_json::{Map, Value};

use super::{Atom, ListAtom, MapAtom, TypeRef};
use crate::{
    apply::{FieldSet, PathElement},
    type_schema::TypeSchema,
};

/// The value without these fields. A list or an object that loses all it has becomes null.
pub fn remove_items(value: &Value, fields: &FieldSet<'_>, typed: &dyn TypeSchema) -> Value {
    take(value, fields, TypeRef::Known(typed), RemoveMode::Rest)
}

/// The value with only these fields.
pub fn extract_items(value: &Value, fields: &FieldSet<'_>, typed: &dyn TypeSchema) -> Value {
    take(value, fields, TypeRef::Known(typed), RemoveMode::Fields)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RemoveMode {
    Rest,
    Fields,
}

fn take(value: &Value, fields: &FieldSet<'_>, typed: TypeRef<'_>, keep: RemoveMode) -> Value {
    match (typed.resolve(value), value) {
        (Atom::Scalar(_), _) => value.clone(),
        (Atom::List(list), Value::Array(items)) => {
            if list.is_atomic() || items.is_empty() {
                return whole(value, keep);
            }
            take_items(items, fields, list, keep)
        }
        (Atom::Map(map), Value::Object(values)) => {
            if map.atomic || values.is_empty() {
                return whole(value, keep);
            }
            take_fields(values, fields, map, keep)
        }
        (Atom::List(_) | Atom::Map(_), _) => Value::Null,
    }
}

/// Where the set reaches into something that is one, all of it is meant.
fn whole(value: &Value, keep: RemoveMode) -> Value {
    match keep {
        RemoveMode::Rest => Value::Null,
        RemoveMode::Fields => value.clone(),
    }
}

fn take_items(items: &[Value], fields: &FieldSet<'_>, list: ListAtom<'_>, keep: RemoveMode) -> Value {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let node = list.element(item).ok().and_then(|element| fields.get(&element));
        let member = node.is_some_and(|node| node.member);
        let below = node.map(|node| &node.below).filter(|below| !below.is_empty());
        match (keep, member, below) {
            (RemoveMode::Rest, true, _) | (RemoveMode::Fields, false, None) => {}
            (_, _, Some(below)) => out.push(take(item, below, list.items, keep)),
            (RemoveMode::Rest, false, None) | (RemoveMode::Fields, true, None) => out.push(item.clone()),
        }
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Array(out)
    }
}

fn take_fields(
    values: &Map<String, Value>,
    fields: &FieldSet<'_>,
    map: MapAtom<'_>,
    keep: RemoveMode,
) -> Value {
    let mut out = Map::new();
    for (name, value) in values {
        let node = fields.get(&PathElement::field(name.as_str()));
        let member = node.is_some_and(|node| node.member);
        let below = node.map(|node| &node.below).filter(|below| !below.is_empty());
        let kept = match (keep, member, below) {
            (RemoveMode::Rest, true, _) | (RemoveMode::Fields, false, None) => continue,
            (_, _, Some(below)) => take(value, below, map.child(name), keep),
            (RemoveMode::Rest, false, None) => value.clone(),
            (RemoveMode::Fields, true, None) => take(value, &FieldSet::new(), map.child(name), keep),
        };
        out.insert(name.clone(), kept);
    }
    if out.is_empty() {
        Value::Null
    } else {
        Value::Object(out)
    }
}
