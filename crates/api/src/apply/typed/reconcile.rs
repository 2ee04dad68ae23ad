//! Adapts the field sets of `managedFields` to a schema that changed since (`ReconcileFieldSetWithSchema`).

// upstream: vendor/sigs.k8s.io/structured-merge-diff/v6/typed/reconcile_schema.go ReconcileFieldSetWithSchema

use super::{Atom, TypeRef};
use crate::{
    apply::{
        PathElement,
        set::{FieldSet, Node},
    },
    type_schema::TypeSchema,
};

/// Takes back what was recorded of the parts of something that is one by now: who owned a part owns it all.
/// Returns whether anything changed.
pub(crate) fn reconcile(set: &mut FieldSet<'_>, typed: &dyn TypeSchema) -> bool {
    let Some(atom) = TypeRef::Known(typed).declared() else {
        return false;
    };
    reconcile_level(set, atom)
}

fn reconcile_level(set: &mut FieldSet<'_>, atom: Atom<'_>) -> bool {
    let mut changed = false;
    for node in &mut set.nodes {
        if node.below.is_empty() {
            continue;
        }
        let Some(below) = atom.at(&node.element).and_then(TypeRef::declared) else {
            continue;
        };
        let atomic = match below {
            Atom::Map(map) => map.atomic,
            Atom::List(list) => list.is_atomic(),
            Atom::Scalar(_) => continue,
        };
        if atomic {
            node.member = true;
            node.below = FieldSet::new();
            changed = true;
        } else {
            changed |= reconcile_level(&mut node.below, below);
        }
    }
    changed
}

/// The set with all structs that lead to its fields. Removing a struct's last field by hand would leave an
/// empty struct behind; with the struct in the set it is removed too.
pub(crate) fn with_named_fields<'a>(set: &FieldSet<'a>, typed: &dyn TypeSchema) -> FieldSet<'a> {
    name_level(set, Some(TypeRef::Known(typed)))
}

fn name_level<'a>(set: &FieldSet<'a>, typed: Option<TypeRef<'_>>) -> FieldSet<'a> {
    let atom = typed.and_then(TypeRef::declared);
    let nodes = set.nodes.iter().map(|node| {
        if node.below.is_empty() {
            return node.clone();
        }
        let below = atom.as_ref().and_then(|atom| atom.at(&node.element));
        let named = match (&atom, &node.element) {
            (Some(Atom::Map(map)), PathElement::Field(name)) => map.named(name).is_some(),
            _ => false,
        };
        Node {
            element: node.element.clone(),
            member: node.member || named,
            below: name_level(&node.below, below),
        }
    });
    FieldSet {
        nodes: nodes.collect(),
    }
}
