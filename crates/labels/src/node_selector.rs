//! Node selectors: requirements of labels that may compare numbers, and of the name of the node.

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go NewLazyErrorNodeSelector, newNodeSelectorTerm

use serde::{Deserialize, Deserializer};

use crate::{Labels, Operator, Requirement, Selector, SelectorRequirement};

/// The only field of nodes that can be asked for.
const NAME: &str = "metadata.name";

/// A `NodeSelector`: a node matches if one of the terms matches. Without terms no node matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A term; all its requirements must hold. No node matches an empty term, nor one that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    labels: Selector,
    fields: Selector,
}

/// A term as objects have it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TermFields {
    match_expressions: Vec<SelectorRequirement>,
    match_fields: Vec<SelectorRequirement>,
}

// --- NodeSelector ---

impl NodeSelector {
    /// Whether a node with this name and these labels matches. Without a name, requirements of fields always hold.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go Match; also searched as MatchNodeSelectorTerms
    pub fn matches(&self, name: Option<&str>, labels: &(impl Labels + ?Sized)) -> bool {
        let mut terms = self.node_selector_terms.iter();
        terms.any(|term| term.matches(name, labels))
    }
}

// --- NodeSelectorTerm ---

impl NodeSelectorTerm {
    /// A term with these `matchExpressions` and `matchFields`.
    pub fn new(
        expressions: impl IntoIterator<Item = SelectorRequirement>,
        fields: impl IntoIterator<Item = SelectorRequirement>,
    ) -> Self {
        NodeSelectorTerm {
            labels: all(expressions, label_requirement),
            fields: all(fields, field_requirement),
        }
    }

    /// Whether a node with this name and these labels matches. Without a name, requirements of fields always hold.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go match
    pub fn matches(&self, name: Option<&str>, labels: &(impl Labels + ?Sized)) -> bool {
        !self.is_empty() && self.labels.matches(labels) && self.matches_field(name)
    }

    /// Whether there are no requirements.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go isEmptyNodeSelectorTerm
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The names of nodes that are asked for; a node must have all of them.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        let equal = self.fields.requirements().iter();
        let equal = equal.filter(|one| one.key() == NAME && one.operator() == Operator::Equals);
        equal.flat_map(Requirement::values).map(String::as_str)
    }

    fn matches_field(&self, name: Option<&str>) -> bool {
        let Some(name) = name else {
            return !self.fields.is_nothing();
        };
        // A field that nodes do not have is empty.
        self.fields
            .matches_with(|field| Some(if field == NAME { name } else { "" }))
    }
}

impl<'de> Deserialize<'de> for NodeSelectorTerm {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let term = TermFields::deserialize(from)?;
        Ok(NodeSelectorTerm::new(term.match_expressions, term.match_fields))
    }
}

/// An empty term.
impl Default for NodeSelectorTerm {
    fn default() -> Self {
        NodeSelectorTerm::new([], [])
    }
}

/// What is not valid never holds.
fn all(
    requirements: impl IntoIterator<Item = SelectorRequirement>,
    read: fn(SelectorRequirement) -> Option<Requirement>,
) -> Selector {
    let requirements: Option<_> = requirements.into_iter().map(read).collect();
    requirements.map_or(Selector::NOTHING, Selector::new)
}

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsSelector
fn label_requirement(expression: SelectorRequirement) -> Option<Requirement> {
    let operator = Operator::from_node_selector(&expression.operator)?;
    Requirement::try_new(expression.key, operator, expression.values).ok()
}

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsFieldSelector
fn field_requirement(expression: SelectorRequirement) -> Option<Requirement> {
    let operator = match &*expression.operator {
        "In" => Operator::Equals,
        "NotIn" => Operator::NotEquals,
        _ => return None,
    };
    let is_single = expression.values.len() == 1;
    is_single.then(|| Requirement::from_valid(expression.key, operator, expression.values))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn selector(terms: &Value) -> NodeSelector {
        serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap()
    }

    fn labels(terms: &Value, name: Option<&str>) -> bool {
        let labels = BTreeMap::from([("zone", "a"), ("cores", "8")]);
        selector(terms).matches(name, &labels)
    }

    #[test]
    fn node_matches_if_one_term_matches() {
        let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let field = |key: &str, operator: &str, values: &[&str]| json!({"matchFields": [{"key": key, "operator": operator, "values": values}]});
        let name = |operator: &str, values: &[&str]| field("metadata.name", operator, values);
        let cases = [
            (json!([]), false),
            (json!([{}]), false),
            (json!([label("zone", "In", &["a", "b"])]), true),
            (json!([label("zone", "In", &["b"])]), false),
            (json!([label("disk", "In", &["b"])]), false),
            (json!([label("zone", "NotIn", &["a"])]), false),
            (json!([label("zone", "NotIn", &["b"])]), true),
            (json!([label("disk", "NotIn", &["b"])]), true),
            (json!([label("zone", "Exists", &[])]), true),
            (json!([label("disk", "Exists", &[])]), false),
            (json!([label("zone", "DoesNotExist", &[])]), false),
            (json!([label("disk", "DoesNotExist", &[])]), true),
            (json!([label("cores", "Gt", &["4"])]), true),
            (json!([label("cores", "Gt", &["8"])]), false),
            (json!([label("zone", "Gt", &["4"])]), false),
            (json!([label("disk", "Gt", &["4"])]), false),
            (json!([label("cores", "Lt", &["9"])]), true),
            (json!([label("cores", "Lt", &["8"])]), false),
            (json!([label("disk", "Lt", &["9"])]), false),
            // Terms that are not valid match nothing, not even by what a label does not have.
            (json!([label("cores", "Gt", &["4", "5"])]), false),
            (json!([label("cores", "Gt", &["many"])]), false),
            (json!([label("disk", "NotIn", &[])]), false),
            (json!([label("zone", "Like", &["a"])]), false),
            (json!([label("zone", "In", &["b"]), name("In", &["n1"])]), true),
            (json!([name("In", &["n2"])]), false),
            (json!([name("NotIn", &["n1"])]), false),
            (json!([name("NotIn", &["n2"])]), true),
            (json!([name("In", &["n1", "n2"])]), false),
            (json!([name("Exists", &[])]), false),
            (json!([field("metadata.uid", "In", &["n1"])]), false),
            (json!([field("metadata.uid", "NotIn", &["n1"])]), true),
        ];
        for (terms, expected) in cases {
            assert_eq!(labels(&terms, Some("n1")), expected, "{terms}");
        }
    }

    #[test]
    fn without_a_name_requirements_of_fields_hold_if_they_are_valid() {
        let name = |operator: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n1"]}]}]);
        assert!(labels(&name("In"), None) && labels(&name("NotIn"), None));
        assert!(!labels(&name("Gt"), None));
    }

    #[test]
    fn finds_the_names_of_nodes() {
        let field = |operator: &str, values: &[&str]| {
            let terms = json!([{}, {"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]);
            let selector = selector(&terms);
            let names = selector.node_selector_terms.iter();
            names
                .flat_map(NodeSelectorTerm::node_names)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(field("In", &["n1"]), ["n1"]);
        assert!(field("In", &["n1", "n2"]).is_empty());
        assert!(field("NotIn", &["n1"]).is_empty());
    }
}
