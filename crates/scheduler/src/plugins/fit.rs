//! Plugin `NodeResourcesFit`: a node must have the resources that the pod requests.

use std::borrow::Cow;

use super::{CandidateNode, CycleContext, ExtensionPoint, SchedulerPlugin, normalize_score::MAX_NODE_SCORE};
use crate::{
    cache::{NodeInfo, SchedulerCache},
    cluster_event::{ClusterEvent, ClusterEventKind},
    object::{Node, Pod, Resources},
    status::{FilterResult, Rejection, RejectionCode},
};

#[derive(Debug)]
pub(super) struct NodeResourcesFit;

impl SchedulerPlugin for NodeResourcesFit {
    type State = ();

    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Filter, ExtensionPoint::Score]
    }

    fn events_to_register(&self) -> &'static [ClusterEventKind] {
        &[
            ClusterEventKind::NodeAdd,
            ClusterEventKind::NodeUpdate,
            ClusterEventKind::AssignedPodUpdate,
            ClusterEventKind::AssignedPodDelete,
        ]
    }

    // upstream: pkg/scheduler/framework/plugins/noderesources/fit.go EventsToRegister
    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>, _: &SchedulerCache) -> bool {
        match event {
            ClusterEvent::AssignedPodDelete(_) => true,
            ClusterEvent::NodeAdd(node) => could_fit(pod, node),
            ClusterEvent::NodeUpdate { old, new } => {
                (old.allocatable != new.allocatable || old.pods != new.pods)
                    && could_fit(pod, new)
                    && grew(pod, old, new)
            }
            ClusterEvent::AssignedPodUpdate { old, new } => {
                shrank(pod, &old.requests().asked, &new.requests().asked)
            }
            ClusterEvent::UnscheduledPodUpdate { old, new } => {
                asks_less(&old.spec.requests.asked, &new.spec.requests.asked)
            }
            _ => false,
        }
    }

    // upstream: pkg/scheduler/framework/plugins/noderesources/fit.go Filter
    fn filter(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> FilterResult {
        fits_request(cycle.pod, node.info, node.node)
    }

    /// The share of CPU and memory that would stay free.
    // upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go leastResourceScorer, leastRequestedScore; the leastAllocated scoring strategy
    fn score(&self, cycle: &CycleContext<'_>, (): &(), node: &CandidateNode<'_>) -> i64 {
        let asked = cycle.pod.spec.requests.scored;
        let counted = node.info.counted;
        let has = &node.node.allocatable;
        let free = |taken: i64, has: i64| {
            if taken > has {
                0
            } else {
                (has - taken) * MAX_NODE_SCORE / has
            }
        };
        let mut sum = 0;
        let mut resources = 0;
        for (taken, has) in [(counted.0 + asked.0, has.cpu), (counted.1 + asked.1, has.memory)] {
            if has != 0 {
                sum += free(taken, has);
                resources += 1;
            }
        }
        if resources == 0 { 0 } else { sum / resources }
    }
}

/// Whether the node has what the pod requests.
// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest
fn fits_request(pod: &Pod, info: &NodeInfo, node: &Node) -> FilterResult {
    let asked = &pod.spec.requests.asked;
    let has = &node.allocatable;
    let taken = &info.requested;
    let crowded = info.pods() + 1 > node.pods;
    let lacks = |asked: i64, has: i64, taken: i64| asked > 0 && asked > has - taken;
    let basics = [
        (
            lacks(asked.cpu, has.cpu, taken.cpu),
            asked.cpu > has.cpu,
            "Insufficient cpu",
        ),
        (
            lacks(asked.memory, has.memory, taken.memory),
            asked.memory > has.memory,
            "Insufficient memory",
        ),
        (
            lacks(asked.ephemeral, has.ephemeral, taken.ephemeral),
            asked.ephemeral > has.ephemeral,
            "Insufficient ephemeral-storage",
        ),
    ];
    if !crowded && asked.scalars.is_empty() && basics.iter().all(|(lacks, ..)| !lacks) {
        return Ok(());
    }
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    let mut never = false;
    if crowded {
        reasons.push("Too many pods".into());
    }
    for (lacks, too_much, reason) in basics {
        if lacks {
            reasons.push(reason.into());
            never |= too_much;
        }
    }
    for (name, asked) in &asked.scalars {
        let has = has.scalar(name);
        if lacks(*asked, has, taken.scalar(name)) {
            reasons.push(format!("Insufficient {name}").into());
            never |= *asked > has;
        }
    }
    let code = if never {
        RejectionCode::UnschedulableAndUnresolvable
    } else {
        RejectionCode::Unschedulable
    };
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Rejection::many(code, reasons))
}

/// Whether the pod fits the node when it has no pods.
fn could_fit(pod: &Pod, node: &Node) -> bool {
    fits_request(pod, &NodeInfo::named(node.name.clone()), node).is_ok()
}

// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go haveAnyRequestedResourcesIncreased
fn grew(pod: &Pod, old: &Node, new: &Node) -> bool {
    new.pods > old.pods || more_of_what_is_asked(pod, &old.allocatable, &new.allocatable)
}

fn shrank(pod: &Pod, old: &Resources, new: &Resources) -> bool {
    more_of_what_is_asked(pod, new, old)
}

fn asks_less(old: &Resources, new: &Resources) -> bool {
    new.cpu < old.cpu
        || new.memory < old.memory
        || new.ephemeral < old.ephemeral
        || old.scalars.iter().any(|(name, asked)| new.scalar(name) < *asked)
}

fn more_of_what_is_asked(pod: &Pod, less: &Resources, more: &Resources) -> bool {
    let asked = &pod.spec.requests.asked;
    (asked.cpu > 0 && more.cpu > less.cpu)
        || (asked.memory > 0 && more.memory > less.memory)
        || (asked.ephemeral > 0 && more.ephemeral > less.ephemeral)
        || asked
            .scalars
            .iter()
            .any(|(name, asked)| *asked > 0 && more.scalar(name) > less.scalar(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::TestCluster;

    fn asks(requests: Value) -> impl FnOnce(&mut Value) {
        move |pod| pod["spec"]["containers"][0]["resources"] = json!({"requests": requests})
    }

    #[test]
    fn filters_nodes_with_insufficient_resources() {
        for (asked, code, message) in [
            (json!({"cpu": "1", "memory": "1Gi"}), None, ""),
            (
                json!({"cpu": "2"}),
                Some(RejectionCode::Unschedulable),
                "Insufficient cpu",
            ),
            (
                json!({"cpu": "5"}),
                Some(RejectionCode::UnschedulableAndUnresolvable),
                "Insufficient cpu",
            ),
            (
                json!({"cpu": "2", "memory": "8Gi"}),
                Some(RejectionCode::Unschedulable),
                "Insufficient cpu, Insufficient memory",
            ),
            (
                json!({"ephemeral-storage": "200Gi"}),
                Some(RejectionCode::UnschedulableAndUnresolvable),
                "Insufficient ephemeral-storage",
            ),
            (
                json!({"example.com/gpu": "2"}),
                Some(RejectionCode::Unschedulable),
                "Insufficient example.com/gpu",
            ),
            (json!({"example.com/gpu": "1"}), None, ""),
            (
                json!({"example.com/tpu": "1"}),
                Some(RejectionCode::UnschedulableAndUnresolvable),
                "Insufficient example.com/tpu",
            ),
        ] {
            let mut sample = TestCluster::default();
            sample.node("n", |node| {
                node["status"]["allocatable"]["example.com/gpu"] = "2".into();
            });
            sample.placed(
                "there",
                "n",
                asks(json!({"cpu": "2500m", "memory": "1Gi", "example.com/gpu": "1"})),
            );
            let pod = sample.pod("p", asks(asked.clone()));
            let result = NodeResourcesFit.filter(&sample.cycle(&pod), &(), &sample.candidate("n"));
            assert_eq!(
                result.as_ref().err().map(|rejection| rejection.code),
                code,
                "{asked}"
            );
            assert_eq!(
                result
                    .err()
                    .map_or_else(String::new, |rejection| rejection.message()),
                message
            );
        }
    }

    #[test]
    fn filters_nodes_with_too_many_pods() {
        let mut sample = TestCluster::default();
        sample.node("n", |node| node["status"]["allocatable"]["pods"] = "1".into());
        let there = sample.placed("there", "n", |_| {});
        let pod = sample.pod("p", |_| {});
        let result = NodeResourcesFit.filter(&sample.cycle(&pod), &(), &sample.candidate("n"));
        assert_eq!(result.unwrap_err().message(), "Too many pods");
        let event = ClusterEvent::AssignedPodDelete(&there);
        assert!(NodeResourcesFit.queueing_hint(&pod, &event, &sample.cluster));
    }

    #[test]
    fn least_allocated_prefers_emptier_nodes() {
        let mut sample = TestCluster::default();
        sample.node("n", |node| {
            node["status"]["allocatable"] = json!({"cpu": "4", "memory": "10000", "pods": "9"});
        });
        for (asked, expected) in [
            (json!({}), 97 / 2),
            (json!({"cpu": "0", "memory": "0"}), 100),
            (json!({"cpu": "3", "memory": "5000"}), i64::midpoint(25, 50)),
            (json!({"cpu": "6", "memory": "5000"}), 50 / 2),
        ] {
            let pod = sample.pod("p", asks(asked.clone()));
            let score = NodeResourcesFit.score(&sample.cycle(&pod), &(), &sample.candidate("n"));
            assert_eq!(score, expected, "{asked}");
        }
    }

    #[test]
    fn queueing_hint_needs_the_missing_resource_to_grow() {
        let mut sample = TestCluster::default();
        let sized = |cpu: &str, memory: &str| {
            let cpu = cpu.to_owned();
            let memory = memory.to_owned();
            move |node: &mut Value| {
                node["status"]["allocatable"] = json!({"cpu": cpu, "memory": memory, "pods": "9"});
            }
        };
        let small = sample.node("n", sized("1", "1Gi"));
        let more_memory = sample.node("n", sized("1", "2Gi"));
        let more_cpu = sample.node("n", sized("3", "1Gi"));
        let pod = sample.pod("p", asks(json!({"cpu": "2"})));
        let queueing_hint = |event| NodeResourcesFit.queueing_hint(&pod, &event, &sample.cluster);
        assert!(queueing_hint(ClusterEvent::NodeUpdate {
            old: &small,
            new: &more_cpu
        }));
        assert!(!queueing_hint(ClusterEvent::NodeUpdate {
            old: &small,
            new: &more_memory
        }));
        assert!(!queueing_hint(ClusterEvent::NodeAdd(&small)));
        assert!(queueing_hint(ClusterEvent::NodeAdd(&more_cpu)));
    }
}
