//! Plugin `NodeResourcesBalancedAllocation`: prefers nodes whose CPU and memory are used evenly.

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreScoreResult, SchedulerPlugin,
    normalize_score::MAX_NODE_SCORE,
};
use crate::number::{to_f64, to_i64};

#[derive(Debug)]
pub(super) struct NodeResourcesBalancedAllocation;

impl SchedulerPlugin for NodeResourcesBalancedAllocation {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Score]
    }

    // upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go PreScore
    fn pre_score(&self, cycle: &CycleContext<'_>, (): &mut (), _: &[CandidateNode<'_>]) -> PreScoreResult {
        let asked = &cycle.pod.spec.requests.asked;
        PreScoreResult::score_if(asked.cpu != 0 || asked.memory != 0)
    }

    /// How much more even the pod would make the usage.
    // upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go Score
    fn score(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> i64 {
        let has = &node.node.allocatable;
        let taken = &node.info.requested;
        let asked = &cycle.pod.spec.requests.asked;
        let balanced_resource_score =
            |cpu, memory| balanced_resource_score([(cpu, has.cpu), (memory, has.memory)]);
        let with = balanced_resource_score(taken.cpu + asked.cpu, taken.memory + asked.memory);
        let without = balanced_resource_score(taken.cpu, taken.memory);
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + with - without) / 2
    }
}

/// One less how far the shares that are taken are apart. Of two, half of the difference is the deviation.
// upstream: pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go balancedResourceScorer; balancedAllocation
fn balanced_resource_score(resources: [(i64, i64); 2]) -> i64 {
    let share = |(taken, has): (i64, i64)| (to_f64(taken) / to_f64(has)).min(1.0);
    let [cpu, memory] = resources;
    let apart = if cpu.1 == 0 || memory.1 == 0 {
        0.0
    } else {
        ((share(cpu) - share(memory)) / 2.0).abs()
    };
    to_i64((1.0 - apart) * to_f64(MAX_NODE_SCORE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn an_even_node_is_better() {
        for (taken, asked, expected) in [
            // Even stays even.
            (
                json!({"cpu": "0", "memory": "0"}),
                json!({"cpu": "2", "memory": "5000"}),
                75,
            ),
            // Made even: 50% against 0 before.
            (
                json!({"cpu": "2"}),
                json!({"memory": "5000"}),
                50 + (50 + 100 - 75) / 2,
            ),
            // Made uneven.
            (json!({"cpu": "0"}), json!({"cpu": "4"}), 50),
        ] {
            let mut sample = TestCluster::default();
            sample.node("n", |node| {
                node["status"]["allocatable"] = json!({"cpu": "4", "memory": "10000", "pods": "9"});
            });
            sample.placed("there", "n", |pod| {
                pod["spec"]["containers"][0]["resources"] = json!({"requests": taken});
            });
            let pod = sample.pod("p", |pod| {
                pod["spec"]["containers"][0]["resources"] = json!({"requests": asked});
            });
            let score =
                NodeResourcesBalancedAllocation.score(&sample.cycle(&pod), &(), &sample.candidate("n"));
            assert_eq!(score, expected, "{taken} {asked}");
        }
    }

    #[test]
    fn a_pod_that_asks_for_nothing_balances_nothing() {
        let mut sample = TestCluster::default();
        let pod = sample.pod("p", |_| {});
        let result = NodeResourcesBalancedAllocation.pre_score(&sample.cycle(&pod), &mut (), &[]);
        assert_eq!(result, PreScoreResult::Skip);
    }
}
