//! Label selectors.
//!
//! The syntax is that of `kubectl -l`: `app=web,tier!=db,stage in (a, b),stage notin (c),owner,!owner,size>3,size<9`.
//!
//! ```
//! use kubecontroller::selector::Selector;
//!
//! let selector: Selector = "app=web,tier in (front, back)".parse().unwrap();
//! let label = |name: &str| match name { "app" => Some("web"), "tier" => Some("back"), _ => None };
//! assert!(selector.matches_with(label));
//! ```

use k8s_openapi::{api::core::v1 as core, apimachinery::pkg::apis::meta::v1 as meta};

pub use k3_labels::{
    LabelSelector, LabelSelectorError, Labels, NodeSelector, NodeSelectorTerm, Operator, ParseError,
    Requirement, Selector, SelectorRequirement,
};

/// The selector of an object such as a `ReplicaSet`.
// upstream: staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector
pub fn label_selector_as_selector(selector: &meta::LabelSelector) -> Result<Selector, LabelSelectorError> {
    read_label_selector(selector).try_into()
}

/// The selector of an object as it is written there.
pub fn read_label_selector(selector: &meta::LabelSelector) -> LabelSelector {
    let expressions = selector.match_expressions.iter().flatten();
    let expressions = expressions.map(|expression| SelectorRequirement {
        key: expression.key.clone(),
        operator: expression.operator.clone(),
        values: expression.values.iter().flatten().cloned().collect(),
    });
    LabelSelector {
        match_labels: selector.match_labels.clone().unwrap_or_default(),
        match_expressions: expressions.collect(),
    }
}

/// The selector of nodes of a pod or a `PersistentVolume`.
// upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go NewLazyErrorNodeSelector
pub fn node_selector(selector: &core::NodeSelector) -> NodeSelector {
    let terms = selector.node_selector_terms.iter();
    let terms = terms.map(|term| {
        NodeSelectorTerm::new(
            term.match_expressions.iter().flatten().map(node_requirement),
            term.match_fields.iter().flatten().map(node_requirement),
        )
    });
    NodeSelector {
        node_selector_terms: terms.collect(),
    }
}

fn node_requirement(requirement: &core::NodeSelectorRequirement) -> SelectorRequirement {
    SelectorRequirement {
        key: requirement.key.clone(),
        operator: requirement.operator.clone(),
        values: requirement.values.iter().flatten().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::*;

    #[test]
    fn converts_label_selectors_of_objects() {
        let expression = |key: &str, operator: &str, values: &[&str]| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Some(values.iter().map(|&value| value.to_owned()).collect()),
        };
        let selector = LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: Some(vec![
                expression("tier", "NotIn", &["db"]),
                expression("stage", "DoesNotExist", &[]),
            ]),
        };
        let selector = label_selector_as_selector(&selector).unwrap();
        assert_eq!(selector.to_string(), "app=web,!stage,tier notin (db)");
        assert!(selector.matches_with(|name| (name == "app").then_some("web")));
        for broken in [
            expression("a", "In", &[]),
            expression("a", "Exists", &["b"]),
            expression("a", "Gt", &["1"]),
            expression("a", "Is", &[]),
        ] {
            let selector = LabelSelector {
                match_expressions: Some(vec![broken]),
                ..LabelSelector::default()
            };
            assert!(label_selector_as_selector(&selector).is_err());
        }
    }
}
