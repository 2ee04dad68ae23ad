//! A node must have what a pod asks for.

use std::borrow::Cow;

use super::{Plugin, normalize_score::MAX_NODE_SCORE};
use crate::{
    cache::NodeInfo,
    cluster_event::ClusterEvent,
    object::{Node, Pod, Resources},
    status::{Code, FilterResult, Rejection},
};

/// Whether what a pod asks for is free.
// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go Filter, fitsRequest
pub(super) fn filter(pod: &Pod, info: &NodeInfo, node: &Node) -> FilterResult {
    let asked = &pod.spec.requests.asked;
    let (has, taken) = (&node.allocatable, &info.requested);
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
        Code::UnschedulableAndUnresolvable
    } else {
        Code::Unschedulable
    };
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Rejection::many(code, Some(Plugin::NodeResourcesFit), reasons))
}

/// How much of processor and memory would stay free.
// upstream: pkg/scheduler/framework/plugins/noderesources/least_allocated.go leastResourceScorer, leastRequestedScore; the leastAllocated scoring strategy
pub(super) fn score(pod: &Pod, info: &NodeInfo, node: &Node) -> i64 {
    let asked = pod.spec.requests.scored;
    let free = |taken: i64, has: i64| {
        if taken > has {
            0
        } else {
            (has - taken) * MAX_NODE_SCORE / has
        }
    };
    let mut scores = (0, 0);
    for (taken, has) in [
        (info.counted.0 + asked.0, node.allocatable.cpu),
        (info.counted.1 + asked.1, node.allocatable.memory),
    ] {
        if has != 0 {
            scores = (scores.0 + free(taken, has), scores.1 + 1);
        }
    }
    if scores.1 == 0 { 0 } else { scores.0 / scores.1 }
}

/// Whether something helps a pod that was rejected.
// upstream: pkg/scheduler/framework/plugins/noderesources/fit.go EventsToRegister
pub(super) fn queueing_hint(pod: &Pod, event: &ClusterEvent<'_>) -> bool {
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

/// Whether the node would do if it were empty.
fn could_fit(pod: &Pod, node: &Node) -> bool {
    filter(pod, &NodeInfo::named(node.name.clone()), node).is_ok()
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
    fn everything_that_is_asked_for_must_be_free() {
        for (asked, code, message) in [
            (json!({"cpu": "1", "memory": "1Gi"}), None, ""),
            (json!({"cpu": "2"}), Some(Code::Unschedulable), "Insufficient cpu"),
            (
                json!({"cpu": "5"}),
                Some(Code::UnschedulableAndUnresolvable),
                "Insufficient cpu",
            ),
            (
                json!({"cpu": "2", "memory": "8Gi"}),
                Some(Code::Unschedulable),
                "Insufficient cpu, Insufficient memory",
            ),
            (
                json!({"ephemeral-storage": "200Gi"}),
                Some(Code::UnschedulableAndUnresolvable),
                "Insufficient ephemeral-storage",
            ),
            (
                json!({"example.com/gpu": "2"}),
                Some(Code::Unschedulable),
                "Insufficient example.com/gpu",
            ),
            (json!({"example.com/gpu": "1"}), None, ""),
            (
                json!({"example.com/tpu": "1"}),
                Some(Code::UnschedulableAndUnresolvable),
                "Insufficient example.com/tpu",
            ),
        ] {
            let mut sample = TestCluster::default();
            let node = sample.node("n", |node| {
                node["status"]["allocatable"]["example.com/gpu"] = "2".into();
            });
            sample.placed(
                "there",
                "n",
                asks(json!({"cpu": "2500m", "memory": "1Gi", "example.com/gpu": "1"})),
            );
            let pod = sample.pod("p", asks(asked.clone()));
            let info = sample.cluster.info(sample.cluster.slot("n").unwrap());
            let verdict = filter(&pod, info, &node);
            assert_eq!(
                verdict.as_ref().err().map(|rejection| rejection.code),
                code,
                "{asked}"
            );
            assert_eq!(
                verdict
                    .err()
                    .map_or_else(String::new, |rejection| rejection.message()),
                message
            );
        }
    }

    #[test]
    fn a_node_takes_so_many_pods_only() {
        let mut sample = TestCluster::default();
        let node = sample.node("n", |node| node["status"]["allocatable"]["pods"] = "1".into());
        let there = sample.placed("there", "n", |_| {});
        let pod = sample.pod("p", |_| {});
        let info = sample.cluster.info(sample.cluster.slot("n").unwrap());
        assert_eq!(filter(&pod, info, &node).unwrap_err().message(), "Too many pods");
        assert!(queueing_hint(&pod, &ClusterEvent::AssignedPodDelete(&there)));
    }

    #[test]
    fn emptier_nodes_are_better() {
        let mut sample = TestCluster::default();
        let node = sample.node("n", |node| {
            node["status"]["allocatable"] = json!({"cpu": "4", "memory": "10000", "pods": "9"});
        });
        for (asked, expected) in [
            (json!({}), 97 / 2),
            (json!({"cpu": "0", "memory": "0"}), 100),
            (json!({"cpu": "3", "memory": "5000"}), i64::midpoint(25, 50)),
            (json!({"cpu": "6", "memory": "5000"}), 50 / 2),
        ] {
            let pod = sample.pod("p", asks(asked.clone()));
            let info = sample.cluster.info(sample.cluster.slot("n").unwrap());
            assert_eq!(score(&pod, info, &node), expected, "{asked}");
        }
    }

    #[test]
    fn a_pod_is_tried_again_when_what_it_lacks_grows() {
        let mut sample = TestCluster::default();
        let sized = |cpu: &str, memory: &str| {
            let (cpu, memory) = (cpu.to_owned(), memory.to_owned());
            move |node: &mut Value| {
                node["status"]["allocatable"] = json!({"cpu": cpu, "memory": memory, "pods": "9"});
            }
        };
        let small = sample.node("n", sized("1", "1Gi"));
        let more_memory = sample.node("n", sized("1", "2Gi"));
        let more_cpu = sample.node("n", sized("3", "1Gi"));
        let pod = sample.pod("p", asks(json!({"cpu": "2"})));
        assert!(queueing_hint(
            &pod,
            &ClusterEvent::NodeUpdate {
                old: &small,
                new: &more_cpu
            }
        ));
        assert!(!queueing_hint(
            &pod,
            &ClusterEvent::NodeUpdate {
                old: &small,
                new: &more_memory
            }
        ));
        assert!(!queueing_hint(&pod, &ClusterEvent::NodeAdd(&small)));
        assert!(queueing_hint(&pod, &ClusterEvent::NodeAdd(&more_cpu)));
    }
}
