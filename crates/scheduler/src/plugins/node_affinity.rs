//! Plugin `NodeAffinity`: a pod selects nodes by labels and by name.

use kubecontroller::selector::NodeSelector;

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreFilterResult, PreScoreResult, SchedulerPlugin,
    normalize_score::default_normalize_score,
};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    interner::Text,
    object::Pod,
    status::{FilterResult, Rejection},
};

#[derive(Debug)]
pub(super) struct NodeAffinity;

impl SchedulerPlugin for NodeAffinity {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter, ExtensionPoint::Score]
    }

    fn weight(&self) -> i64 {
        2
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[ClusterEventKind::NodeAdd, ClusterEventKind::NodeUpdate]
    }

    // upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go isSchedulableAfterNodeChange
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::NodeAdd(node) => pod.spec.fits_node(node),
            ClusterEvent::NodeUpdate { old, new } => {
                old.labels != new.labels && pod.spec.fits_node(new) && !pod.spec.fits_node(old)
            }
            _ => false,
        }
    }

    // upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go PreFilter
    fn pre_filter(&self, cycle: &CycleContext<'_>, (): &mut ()) -> Result<PreFilterResult, Rejection> {
        let spec = &cycle.pod.spec;
        let Some(required) = &spec.nodes else {
            return Ok(PreFilterResult::all_if(!spec.node_selector.is_empty()));
        };
        match node_names(required) {
            None => Ok(PreFilterResult::All),
            Some(names) if names.is_empty() => Err(Rejection::unresolvable("pod affinity terms conflict")),
            Some(names) => Ok(PreFilterResult::Only(names)),
        }
    }

    // upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go Filter
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        if cycle.pod.spec.fits_node(node.node) {
            return Ok(());
        }
        Err(Rejection::unresolvable(
            "node(s) didn't match Pod's node affinity/selector",
        ))
    }

    fn pre_score(&self, cycle: &CycleContext<'_>, (): &mut (), _: &[CandidateNode<'_>]) -> PreScoreResult {
        PreScoreResult::score_if(!cycle.pod.spec.preferred_nodes.is_empty())
    }

    // upstream: pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go Score
    fn score(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> i64 {
        let preferred = cycle.pod.spec.preferred_nodes.iter();
        preferred
            .filter(|(_, rule)| rule.matches(Some(&node.node.name), &node.node.labels))
            .map(|(weight, _)| weight)
            .sum()
    }

    fn normalize_score(&self, (): &(), _: &[CandidateNode<'_>], scores: &mut [i64]) {
        default_normalize_score(scores);
    }
}

/// The names of the only nodes that can be chosen, when every term names some.
fn node_names(required: &NodeSelector) -> Option<Vec<Text>> {
    let mut names: Vec<Text> = Vec::new();
    for term in &required.node_selector_terms {
        let mut asked = term.node_names();
        let first = asked.next()?;
        if asked.all(|name| name == first) && !names.iter().any(|name| **name == *first) {
            names.push(first.into());
        }
    }
    (!required.node_selector_terms.is_empty()).then_some(names)
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
    fn requires_node_selector_and_one_affinity_term() {
        let mut sample = TestCluster::default();
        sample.node("n", |node| {
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
            let result = NodeAffinity.filter(&sample.cycle(&pod), &(), &sample.candidate("n"));
            assert_eq!(result.is_ok(), fits, "{selector} {terms:?}");
            if let Err(rejection) = result {
                assert_eq!(
                    rejection.message(),
                    "node(s) didn't match Pod's node affinity/selector"
                );
            }
        }
    }

    #[test]
    fn pre_filter_limits_nodes_by_metadata_name() {
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
            let early = NodeAffinity.pre_filter(&sample.cycle(&pod), &mut ());
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
    fn preferred_terms_add_up() {
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
                sample.node("n", |node| node["metadata"]["labels"] = labels.clone());
                NodeAffinity.score(&sample.cycle(&pod), &(), &sample.candidate("n"))
            })
            .collect();
        assert_eq!(scores, [0, 2, 7]);
        NodeAffinity.normalize_score(&(), &[], &mut scores);
        assert_eq!(scores, [0, 28, 100]);
    }
}
