//! A pod may choose nodes by labels and by name.

use super::{Plugin, framework::PreFilterResult, normalize_score::default_normalize_score};
use crate::{
    cluster_event::ClusterEvent,
    object::{Node, Pod},
    status::{FilterResult, Rejection},
};

/// Which nodes can do at all.
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go PreFilter
pub(super) fn pre_filter(pod: &Pod) -> Result<PreFilterResult, Rejection> {
    let Some(rules) = &pod.spec.nodes else {
        return Ok(if pod.spec.node_selector.is_none() {
            PreFilterResult::Skip
        } else {
            PreFilterResult::All
        });
    };
    match rules.names() {
        None => Ok(PreFilterResult::All),
        Some(names) if names.is_empty() => Err(Rejection::unresolvable(
            Plugin::NodeAffinity,
            "pod affinity terms conflict",
        )),
        Some(names) => Ok(PreFilterResult::Only(names)),
    }
}

/// Whether a node is chosen.
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go Filter
pub(super) fn filter(pod: &Pod, node: &Node) -> FilterResult {
    if pod.spec.fits_node(node) {
        return Ok(());
    }
    Err(Rejection::unresolvable(
        Plugin::NodeAffinity,
        "node(s) didn't match Pod's node affinity/selector",
    ))
}

/// The weight of the wishes that a node fulfils.
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go Score
pub(super) fn score(pod: &Pod, node: &Node) -> i64 {
    let wishes = pod.spec.preferred_nodes.iter();
    wishes
        .filter(|(_, rule)| rule.matches(&node.name, &node.labels))
        .map(|(weight, _)| weight)
        .sum()
}

/// More are better.
pub(super) fn normalize(scores: &mut [i64]) {
    default_normalize_score(scores, false);
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go isSchedulableAfterNodeChange
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    match event {
        ClusterEvent::NodeAdd(node) => pod.spec.fits_node(node),
        ClusterEvent::NodeUpdate { old, new } => {
            old.labels != new.labels && pod.spec.fits_node(new) && !pod.spec.fits_node(old)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::TestCluster;

    fn required(terms: &Value) -> Value {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}})
    }

    #[test]
    fn selector_and_one_of_the_terms_must_hold() {
        let mut sample = TestCluster::default();
        let node = sample.node("n", |node| {
            node["metadata"]["labels"] = json!({"disk": "ssd", "gen": "3"});
        });
        let expression = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let field = |operator: &str, name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]});
        for (selector, terms, fits) in [
            (json!({}), None, true),
            (json!({"disk": "ssd"}), None, true),
            (json!({"disk": "hdd"}), None, false),
            (
                json!({}),
                Some(json!([expression("disk", "In", json!(["ssd"]))])),
                true,
            ),
            (
                json!({"gen": "4"}),
                Some(json!([expression("disk", "In", json!(["ssd"]))])),
                false,
            ),
            (
                json!({}),
                Some(json!([
                    expression("disk", "In", json!(["x"])),
                    expression("gen", "Gt", json!(["2"]))
                ])),
                true,
            ),
            (json!({}), Some(json!([{}])), false),
            (json!({}), Some(json!([])), false),
            (json!({}), Some(json!([field("In", "n")])), true),
            (json!({}), Some(json!([field("NotIn", "n")])), false),
            (json!({}), Some(json!([field("In", "m")])), false),
        ] {
            let pod = sample.pod("p", |pod| {
                pod["spec"]["nodeSelector"] = selector.clone();
                if let Some(terms) = &terms {
                    pod["spec"]["affinity"] = required(terms);
                }
            });
            let verdict = filter(&pod, &node);
            assert_eq!(verdict.is_ok(), fits, "{selector} {terms:?}");
            if let Err(rejection) = verdict {
                assert_eq!(
                    rejection.message(),
                    "node(s) didn't match Pod's node affinity/selector"
                );
            }
        }
    }

    #[test]
    fn names_in_fields_narrow_the_search() {
        let mut sample = TestCluster::default();
        let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
        for (terms, found) in [
            (
                json!([{"matchFields": [name("a")]}, {"matchFields": [name("b")]}]),
                Some(Some(vec!["a", "b"])),
            ),
            (json!([{"matchFields": [name("a"), name("b")]}]), None),
            (
                json!([{"matchFields": [name("a")]}, {"matchExpressions": [{"key": "x", "operator": "Exists"}]}]),
                Some(None),
            ),
        ] {
            let pod = sample.pod("p", |pod| pod["spec"]["affinity"] = required(&terms));
            let early = pre_filter(&pod);
            match found {
                None => assert_eq!(early.unwrap_err().message(), "pod affinity terms conflict"),
                Some(None) => assert!(matches!(early, Ok(PreFilterResult::All))),
                Some(Some(names)) => {
                    let Ok(PreFilterResult::Only(found)) = early else {
                        panic!("{early:?}")
                    };
                    assert!(found.iter().map(|name| &**name).eq(names));
                }
            }
        }
    }

    #[test]
    fn the_weights_of_wishes_add_up() {
        let mut sample = TestCluster::default();
        let wish = |weight: i64, key: &str| json!({"weight": weight, "preference": {"matchExpressions": [{"key": key, "operator": "Exists"}]}});
        let pod = sample.pod("p", |pod| {
            pod["spec"]["affinity"] = json!({"nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [wish(2, "a"), wish(5, "b")],
            }});
        });
        let mut scores: Vec<_> = [json!({}), json!({"a": "1"}), json!({"a": "1", "b": "1"})]
            .iter()
            .map(|labels| {
                score(
                    &pod,
                    &sample.node("n", |node| node["metadata"]["labels"] = labels.clone()),
                )
            })
            .collect();
        assert_eq!(scores, [0, 2, 7]);
        normalize(&mut scores);
        assert_eq!(scores, [0, 28, 100]);
    }
}
