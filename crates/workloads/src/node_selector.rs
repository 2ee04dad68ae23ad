//! Node selectors of pods and volumes.

use serde::Deserialize;

use crate::{Node, SelectorRequirement};

/// The only field of nodes that can be asked for.
const NAME: &str = "metadata.name";

/// A `NodeSelector`: a node matches if one of the terms matches. Empty terms match nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A term; all its requirements have to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements of labels.
    pub match_expressions: Vec<SelectorRequirement>,
    /// Requirements of fields.
    pub match_fields: Vec<SelectorRequirement>,
}

// --- NodeSelector ---

impl NodeSelector {
    /// Whether a node matches.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go Match, newNodeSelectorTerm
    pub fn matches(&self, node: &Node) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(node))
    }

    /// The only node that a metadata.name requirement allows.
    // upstream: pkg/controller/daemon/util/daemonset_util.go GetTargetNodeName
    pub fn node_name(&self) -> Option<&str> {
        let terms = self.node_selector_terms.iter();
        let mut fields = terms.flat_map(|term| &term.match_fields);
        let named = fields.find(|field| &*field.key == NAME && &*field.operator == "In")?;
        let [name] = &*named.values else { return None };
        Some(name)
    }
}

impl NodeSelectorTerm {
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go match; also searched as MatchNodeSelectorTerms
    fn matches(&self, node: &Node) -> bool {
        let asks = !self.match_expressions.is_empty() || !self.match_fields.is_empty();
        let label = |asked: &SelectorRequirement| holds_for_label(asked, node.metadata.label(&asked.key));
        let field = |asked: &SelectorRequirement| {
            let value = if &*asked.key == NAME {
                &*node.metadata.name
            } else {
                ""
            };
            holds_for_field(asked, value)
        };
        asks && self.match_expressions.iter().all(label) && self.match_fields.iter().all(field)
    }
}

/// What cannot be understood never holds.
// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsSelector
fn holds_for_label(requirement: &SelectorRequirement, value: Option<&str>) -> bool {
    let is_one_of = |value: &str| requirement.values.iter().any(|asked| &**asked == value);
    match &*requirement.operator {
        "In" => value.is_some_and(is_one_of),
        "NotIn" => !value.is_some_and(is_one_of),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers(requirement, value).is_some_and(|(value, asked)| value > asked),
        "Lt" => numbers(requirement, value).is_some_and(|(value, asked)| value < asked),
        _ => false,
    }
}

fn numbers(requirement: &SelectorRequirement, value: Option<&str>) -> Option<(i64, i64)> {
    let [asked] = &*requirement.values else {
        return None;
    };
    Some((value?.parse().ok()?, asked.parse().ok()?))
}

// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go nodeSelectorRequirementsAsFieldSelector
fn holds_for_field(requirement: &SelectorRequirement, value: &str) -> bool {
    let [asked] = &*requirement.values else {
        return false;
    };
    match &*requirement.operator {
        "In" => **asked == *value,
        "NotIn" => **asked != *value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selector(terms: &Value) -> NodeSelector {
        serde_json::from_value(json!({"nodeSelectorTerms": terms})).unwrap()
    }

    #[test]
    fn node_matches_if_one_term_matches() {
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}}),
        )
        .unwrap();
        let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let name = |operator: &str, values: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]});
        let cases = [
            (json!([]), false),
            (json!([{}]), false),
            (json!([label("zone", "In", &["a", "b"])]), true),
            (json!([label("zone", "In", &["b"])]), false),
            (json!([label("zone", "NotIn", &["b"])]), true),
            (json!([label("disk", "NotIn", &["b"])]), true),
            (json!([label("zone", "Exists", &[])]), true),
            (json!([label("zone", "DoesNotExist", &[])]), false),
            (json!([label("cores", "Gt", &["4"])]), true),
            (json!([label("cores", "Lt", &["4"])]), false),
            (json!([label("zone", "Gt", &["4"])]), false),
            (json!([label("zone", "Like", &["a"])]), false),
            (json!([label("zone", "In", &["b"]), name("In", &["n1"])]), true),
            (json!([name("In", &["n2"])]), false),
            (json!([name("NotIn", &["n2"])]), true),
            (json!([name("In", &["n1", "n2"])]), false),
        ];
        for (terms, expected) in cases {
            assert_eq!(selector(&terms).matches(&node), expected, "{terms}");
        }
    }

    #[test]
    fn finds_the_only_node_of_a_selector() {
        let field = |operator: &str, values: &[&str]| json!([{}, {"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]);
        assert_eq!(selector(&field("In", &["n1"])).node_name(), Some("n1"));
        assert_eq!(selector(&field("In", &["n1", "n2"])).node_name(), None);
        assert_eq!(selector(&field("NotIn", &["n1"])).node_name(), None);
        assert_eq!(selector(&json!([])).node_name(), None);
    }
}
