//! Plugin `TaintToleration`: taints of a node keep pods away that do not tolerate them.

use k3_workloads::{Taint, Toleration};

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreScoreResult, SchedulerPlugin,
    normalize_score::reverse_normalize_score,
};
use crate::{
    cache::SchedulerCache,
    cluster_event::{ClusterEvent, ClusterEventKind},
    number::count,
    object::{Node, Pod},
    status::{FilterResult, Rejection},
};

#[derive(Debug)]
pub(super) struct TaintToleration;

/// The state is the pod's tolerations of `PreferNoSchedule` taints.
impl SchedulerPlugin for TaintToleration {
    type State = Vec<Toleration>;

    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter, ExtensionPoint::Score]
    }

    fn weight(&self) -> i64 {
        3
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[ClusterEventKind::NodeAdd, ClusterEventKind::NodeUpdate]
    }

    // upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go isSchedulableAfterNodeChange, isSchedulableAfterTargetPodTolerationChange
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        let has_untolerated_taint = |node: &Node| node.has_untolerated_taint(&pod.spec.tolerations);
        match event {
            ClusterEvent::NodeAdd(node) => !has_untolerated_taint(node),
            ClusterEvent::NodeUpdate { old, new } => {
                has_untolerated_taint(old) && !has_untolerated_taint(new)
            }
            ClusterEvent::UnscheduledPodUpdate { old, new } => old.spec.tolerations != new.spec.tolerations,
            _ => false,
        }
    }

    // upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Filter
    fn filter(
        &self,
        cycle: &CycleContext<'_>,
        _: &Vec<Toleration>,
        node: &CandidateNode<'_>,
    ) -> FilterResult {
        if node.node.has_untolerated_taint(&cycle.pod.spec.tolerations) {
            return Err(Rejection::unresolvable("node(s) had untolerated taint(s)"));
        }
        Ok(())
    }

    // upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go PreScore, getAllTolerationPreferNoSchedule
    fn pre_score(
        &self,
        cycle: &CycleContext<'_>,
        soft: &mut Vec<Toleration>,
        _: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        let tolerations = cycle.pod.spec.tolerations.iter();
        *soft = tolerations
            .filter(|toleration| ["", Taint::PREFER_NO_SCHEDULE].contains(&&*toleration.effect))
            .cloned()
            .collect();
        PreScoreResult::Score
    }

    /// The number of `PreferNoSchedule` taints that the pod does not tolerate.
    // upstream: pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go Score, countIntolerableTaintsPreferNoSchedule
    fn score(&self, _: &CycleContext<'_>, soft: &Vec<Toleration>, node: &CandidateNode<'_>) -> i64 {
        let taints = node.node.taints.iter();
        let taints = taints.filter(|taint| &*taint.effect == Taint::PREFER_NO_SCHEDULE);
        count(taints.filter(|taint| !taint.is_tolerated_by(soft)).count())
    }

    fn normalize_score(&self, _: &Vec<Toleration>, _: &[CandidateNode<'_>], scores: &mut [i64]) {
        reverse_normalize_score(scores);
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
    fn filters_untolerated_taints() {
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
            sample.node("n", |node| node["spec"]["taints"] = taints.clone());
            let pod = sample.pod("p", |pod| pod["spec"]["tolerations"] = tolerations.clone());
            let result = TaintToleration.filter(&sample.cycle(&pod), &Vec::new(), &sample.candidate("n"));
            assert_eq!(result.is_ok(), fits, "{taints} {tolerations}");
            if let Err(rejection) = result {
                assert_eq!(rejection.message(), "node(s) had untolerated taint(s)");
            }
        }
    }

    #[test]
    fn prefers_nodes_with_fewer_prefer_no_schedule_taints() {
        let mut sample = TestCluster::default();
        let pod = sample.pod("p", |pod| {
            pod["spec"]["tolerations"] = json!([
                {"key": "a", "operator": "Exists", "effect": "PreferNoSchedule"},
                {"key": "b", "operator": "Exists", "effect": "NoSchedule"},
            ]);
        });
        let mut state = Vec::new();
        TaintToleration.pre_score(&sample.cycle(&pod), &mut state, &[]);
        let mut scores: Vec<_> = [vec![], vec!["a"], vec!["a", "b"], vec!["b", "c"]]
            .into_iter()
            .map(|keys| {
                let taints: Vec<_> = keys.iter().map(|key| taint(key, "PreferNoSchedule")).collect();
                sample.node("n", |node| node["spec"]["taints"] = json!(taints));
                TaintToleration.score(&sample.cycle(&pod), &state, &sample.candidate("n"))
            })
            .collect();
        assert_eq!(scores, [0, 0, 1, 2]);
        TaintToleration.normalize_score(&state, &[], &mut scores);
        assert_eq!(scores, [100, 100, 50, 0]);
    }

    #[test]
    fn queueing_hint_follows_removed_taints() {
        let mut sample = TestCluster::default();
        let tainted = sample.node("n", |node| {
            node["spec"]["taints"] = json!([taint("a", "NoSchedule")]);
        });
        let free = sample.node("n", |_| {});
        let pod = sample.pod("p", |_| {});
        let queueing_hint = |event| TaintToleration.queueing_hint(&pod, &event, &sample.cluster);
        assert!(queueing_hint(ClusterEvent::NodeUpdate {
            old: &tainted,
            new: &free
        }));
        assert!(!queueing_hint(ClusterEvent::NodeUpdate {
            old: &free,
            new: &free
        }));
        assert!(!queueing_hint(ClusterEvent::NodeAdd(&tainted)));
    }
}
