//! The field set of a value (`ToFieldSet`).

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/tofieldset.go toFieldSet
// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go EnsureNamedFieldsAreMembers

use serde_json::{Map, Value};

use super::{Atom, ListAtom, MapAtom, TypeRef};
use crate::{
    apply::{
        PathElement,
        set::{FieldSet, Node},
    },
    type_schema::TypeSchema,
};

/// The fields of a value: leaves, items of lists and maps, and what is replaced as one.
///
/// Structs are not part of it, only what is in them. Items that are there more than once count as one field
/// with nothing below it. Items that cannot be distinguished are left out; [`super::validate`] finds them.
pub fn field_set<'a>(value: &'a Value, typed: &'a dyn TypeSchema) -> FieldSet<'a> {
    fields(value, TypeRef::Known(typed), StructMembership::Unnamed).below
}

/// The same, with the structs that lead to the fields: see [`super::with_named_fields`].
pub(crate) fn named_field_set<'a>(value: &'a Value, typed: &'a dyn TypeSchema) -> FieldSet<'a> {
    fields(value, TypeRef::Known(typed), StructMembership::Named).below
}

/// Whether structs are fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StructMembership {
    Named,
    Unnamed,
}

struct FieldCollector<'a> {
    /// Whether the value itself is a field.
    member: bool,
    below: FieldSet<'a>,
}

// --- FieldCollector ---

impl FieldCollector<'_> {
    const LEAF: Self = Self {
        member: true,
        below: FieldSet::new(),
    };
    const NONE: Self = Self {
        member: false,
        below: FieldSet::new(),
    };
}

fn fields<'a>(value: &'a Value, typed: TypeRef<'a>, structs: StructMembership) -> FieldCollector<'a> {
    match typed.resolve(value) {
        Atom::Scalar(_) => FieldCollector::LEAF,
        Atom::List(list) if list.is_atomic() => FieldCollector::LEAF,
        Atom::Map(map) if map.atomic => FieldCollector::LEAF,
        Atom::List(list) => value
            .as_array()
            .map_or(FieldCollector::NONE, |items| items_of(items, list, structs)),
        Atom::Map(map) => value
            .as_object()
            .map_or(FieldCollector::NONE, |fields| fields_of(fields, map, structs)),
    }
}

fn items_of<'a>(items: &'a [Value], list: ListAtom<'a>, structs: StructMembership) -> FieldCollector<'a> {
    let mut found: Vec<_> = items
        .iter()
        .filter_map(|item| list.element(item).ok().map(|element| (element, item)))
        .collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    let mut below = FieldSet {
        nodes: Vec::with_capacity(found.len()),
    };
    for group in found.chunk_by(|left, right| left.0 == right.0) {
        let (element, item) = &group[0];
        let children = if group.len() == 1 {
            fields(item, list.items, structs).below
        } else {
            FieldSet::new()
        };
        below.nodes.push(Node {
            element: element.clone(),
            member: true,
            below: children,
        });
    }
    FieldCollector { member: false, below }
}

fn fields_of<'a>(
    values: &'a Map<String, Value>,
    map: MapAtom<'a>,
    structs: StructMembership,
) -> FieldCollector<'a> {
    let mut below = FieldSet {
        nodes: Vec::with_capacity(values.len()),
    };
    for (name, value) in values {
        let element = PathElement::field(name.as_str());
        if let Value::String(_) | Value::Number(_) | Value::Bool(_) = value {
            below.push(Node {
                element,
                member: true,
                below: FieldSet::new(),
            });
            continue;
        }
        let named = map.named(name);
        let FieldCollector {
            mut member,
            below: children,
        } = fields(value, named.unwrap_or(map.values), structs);
        let leads = structs == StructMembership::Named && !children.is_empty();
        member |= leads || named.is_none() || is_empty(value);
        below.push(Node {
            element,
            member,
            below: children,
        });
    }
    FieldCollector { member: false, below }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}
