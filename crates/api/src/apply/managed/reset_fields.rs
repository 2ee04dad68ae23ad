//! Fields that a write cannot set, whatever it says: the status when the object is written, all else when
//! the status is. Nobody comes to own them by such a write.

use crate::apply::{FieldSet, PathElement, set::Node};

/// Which fields a write cannot set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ResetFields {
    /// None.
    Nothing,
    /// These, with all below them.
    Fields(FieldSet<'static>),
    /// All but what begins with one of these ways.
    AllBut(Vec<Vec<PathElementMatcher>>),
}

/// One step of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathElementMatcher {
    /// A field of this name.
    Field(&'static str),
    /// Whatever there is: the items of a list.
    Any,
}

// --- Reset ---

impl ResetFields {
    /// Takes the fields that cannot be set out of a set.
    pub(super) fn filter(&self, set: &mut FieldSet<'_>) {
        match self {
            Self::Nothing => {}
            Self::Fields(fields) => set.remove_trees(fields),
            Self::AllBut(ways) => keep(set, &ways.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        }
    }
}

fn keep(set: &mut FieldSet<'_>, ways: &[&[PathElementMatcher]]) {
    set.nodes.retain_mut(|node| keep_node(node, ways));
}

fn keep_node(node: &mut Node<'_>, ways: &[&[PathElementMatcher]]) -> bool {
    let mut further = Vec::new();
    for way in ways {
        match way.split_first() {
            // Nothing is asked of what lies beyond the end of a way.
            None => return true,
            Some((step, rest)) if step.matches(&node.element) => further.push(rest),
            Some(_) => {}
        }
    }
    if further.is_empty() {
        return false;
    }
    keep(&mut node.below, &further);
    node.member || !node.below.is_empty()
}

// --- PathElementMatcher ---

impl PathElementMatcher {
    fn matches(&self, element: &PathElement<'_>) -> bool {
        match (self, element) {
            (Self::Any, _) => true,
            (Self::Field(name), PathElement::Field(field)) => name == field,
            (Self::Field(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_way_keeps_what_leads_along_it_and_beyond() {
        let record = json!({
            "f:metadata": {"f:labels": {".": {}}},
            "f:spec": {
                "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}},
                "f:nodeName": {},
            },
        });
        let mut set = FieldSet::decode(&record).unwrap();
        let way = vec![
            PathElementMatcher::Field("spec"),
            PathElementMatcher::Field("containers"),
            PathElementMatcher::Any,
            PathElementMatcher::Field("resources"),
        ];
        ResetFields::AllBut(vec![way]).filter(&mut set);
        assert_eq!(
            set.encode(),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:resources": {"f:limits": {"f:cpu": {}}}}}}})
        );
    }
}
