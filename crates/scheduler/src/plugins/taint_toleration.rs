//! Taints keep pods away that do not bear them.

use super::{Plugin, normalize_score::default_normalize_score};
use crate::{
    cluster_event::ClusterEvent,
    number::count,
    object::{Effect, Node, Pod, Toleration},
    status::{FilterResult, Rejection},
};

/// Whether a pod bears the taints of a node.
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Filter
pub(super) fn filter(pod: &Pod, node: &Node) -> FilterResult {
    if node.has_untolerated_taint(&pod.spec.tolerations) {
        return Err(Rejection::unresolvable(
            Plugin::TaintToleration,
            "node(s) had untolerated taint(s)",
        ));
    }
    Ok(())
}

/// The tolerations that may be about taints which only make other nodes better.
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go getAllTolerationPreferNoSchedule
pub(super) fn soft(pod: &Pod) -> Vec<Toleration> {
    pod.spec
        .tolerations
        .iter()
        .filter(|toleration| toleration.is_soft())
        .cloned()
        .collect()
}

/// How many soft taints of a node a pod does not bear.
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Score, countIntolerableTaintsPreferNoSchedule
pub(super) fn score(soft: &[Toleration], node: &Node) -> i64 {
    let taints = node
        .taints
        .iter()
        .filter(|taint| taint.effect == Effect::PreferNoSchedule);
    count(taints.filter(|taint| !taint.borne(soft)).count())
}

/// Fewer are better.
pub(super) fn normalize(scores: &mut [i64]) {
    default_normalize_score(scores, true);
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go isSchedulableAfterNodeChange, isSchedulableAfterTargetPodTolerationChange
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
    let has_untolerated_taint = |node: &Node| node.has_untolerated_taint(&pod.spec.tolerations);
    match event {
        ClusterEvent::NodeAdd(node) => !has_untolerated_taint(node),
        ClusterEvent::NodeUpdate { old, new } => has_untolerated_taint(old) && !has_untolerated_taint(new),
        ClusterEvent::UnscheduledPodUpdate { old, new } => old.spec.tolerations != new.spec.tolerations,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::TestCluster;

    fn taint(key: &str, effect: &str) -> Value {
        json!({"key": key, "value": "v", "effect": effect})
    }

    #[test]
    fn hard_taints_must_be_borne() {
        let mut sample = TestCluster::default();
        for (taints, tolerations, fits) in [
            (json!([]), json!([]), true),
            (json!([taint("a", "NoSchedule")]), json!([]), false),
            (json!([taint("a", "NoExecute")]), json!([]), false),
            (json!([taint("a", "PreferNoSchedule")]), json!([]), true),
            (
                json!([taint("a", "NoSchedule")]),
                json!([{"key": "a", "value": "v"}]),
                true,
            ),
            (
                json!([taint("a", "NoSchedule"), taint("b", "NoSchedule")]),
                json!([{"key": "a", "value": "v"}]),
                false,
            ),
            (
                json!([taint("a", "NoSchedule"), taint("b", "NoSchedule")]),
                json!([{"operator": "Exists"}]),
                true,
            ),
        ] {
            let node = sample.node("n", |node| node["spec"]["taints"] = taints.clone());
            let pod = sample.pod("p", |pod| pod["spec"]["tolerations"] = tolerations.clone());
            let verdict = filter(&pod, &node);
            assert_eq!(verdict.is_ok(), fits, "{taints} {tolerations}");
            if let Err(rejection) = verdict {
                assert_eq!(rejection.message(), "node(s) had untolerated taint(s)");
            }
        }
    }

    #[test]
    fn nodes_with_fewer_soft_taints_are_better() {
        let mut sample = TestCluster::default();
        let pod = sample.pod("p", |pod| {
            pod["spec"]["tolerations"] = json!([
                {"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"},
                {"key": "b", "operator": "Exists", "effect": "NoSchedule"},
            ]);
        });
        let soft = soft(&pod);
        let mut scores: Vec<_> = [vec![], vec!["a"], vec!["a", "b"], vec!["b", "c"]]
            .into_iter()
            .map(|keys| {
                let taints: Vec<_> = keys.iter().map(|key| taint(key, "PreferNoSchedule")).collect();
                let node = sample.node("n", |node| node["spec"]["taints"] = json!(taints));
                score(&soft, &node)
            })
            .collect();
        assert_eq!(scores, [0, 0, 1, 2]);
        normalize(&mut scores);
        assert_eq!(scores, [100, 100, 50, 0]);
    }

    #[test]
    fn a_pod_is_tried_again_when_a_taint_goes() {
        let mut sample = TestCluster::default();
        let tainted = sample.node("n", |node| {
            node["spec"]["taints"] = json!([taint("a", "NoSchedule")]);
        });
        let free = sample.node("n", |_| {});
        let pod = sample.pod("p", |_| {});
        assert!(queueing_hint(
            &pod,
            &ClusterEvent::NodeUpdate {
                old: &tainted,
                new: &free
            }
        ));
        assert!(!queueing_hint(
            &pod,
            &ClusterEvent::NodeUpdate {
                old: &free,
                new: &free
            }
        ));
        assert!(!queueing_hint(&pod, &ClusterEvent::NodeAdd(&tainted)));
    }
}
