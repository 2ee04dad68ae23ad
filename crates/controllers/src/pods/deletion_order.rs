//! Deletion order of surplus pods.
//!
//! A total order, so that every sync chooses the same pods. These pods are deleted first; each criterion only breaks ties of the
//! criteria before it: pods without a node; pending before unknown before running; not ready; lower pod deletion cost (KEP-2255);
//! on nodes with more related pods; ready for a shorter time; restarted more often; younger. Times are compared by their order of
//! magnitude, and within one magnitude the UID decides, so that of two pods of nearly the same age an arbitrary one is deleted
//! (LogarithmicScaleDown, KEP-2185).

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use k3_workloads::{ContainerStatus, Pod, PodPhase};
use k8s_openapi::jiff::Timestamp;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `count` pods to delete. `related` are the pods whose spread over nodes counts: those of all sets with the same owner,
/// `pods` included.
// upstream: pkg/controller/replicaset/replica_set.go getPodsToDelete, getPodsRankedByRelatedPodsOnSameNode
pub fn pods_to_delete<'r>(
    mut pods: Vec<Arc<Pod>>,
    related: impl IntoIterator<Item = &'r Arc<Pod>>,
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    if count < pods.len() {
        let mut pods_per_node = HashMap::<&str, usize>::new();
        for pod in related.into_iter().filter(|pod| pod.is_active()) {
            *pods_per_node.entry(&pod.spec.node_name).or_default() += 1;
        }
        let mut first_uid_by_ready_time = HashMap::<Timestamp, Box<str>>::new();
        for pod in &pods {
            if let Some(since) = pod.ready_since() {
                let first = first_uid_by_ready_time
                    .entry(since)
                    .or_insert_with(|| pod.metadata.uid.clone());
                if pod.metadata.uid < *first {
                    first.clone_from(&pod.metadata.uid);
                }
            }
        }
        // A node without an entry runs no related pod.
        pods.sort_by_cached_key(|pod| {
            let related_on_node = pods_per_node.get(&*pod.spec.node_name).copied().unwrap_or(0);
            deletion_rank(pod, related_on_node, &first_uid_by_ready_time, now)
        });
    }
    pods.truncate(count);
    pods
}

/// Sort key of pods; the lowest is deleted first.
type DeletionRank = (
    (bool, u8, bool, i32, Reverse<usize>),
    (LogAge, Box<str>),
    (Reverse<u32>, Reverse<u32>),
    (LogAge, Box<str>),
);

/// The binary logarithm of an age in nanoseconds. Pods without a time count as the youngest.
type LogAge = Option<i32>;

// upstream: pkg/controller/controller_utils.go ActivePodsWithRanks, Less
fn deletion_rank(
    pod: &Pod,
    related_on_node: usize,
    first_uid_by_ready_time: &HashMap<Timestamp, Box<str>>,
    now: Timestamp,
) -> DeletionRank {
    let phase = match pod.status.phase {
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
        PodPhase::Pending | PodPhase::Succeeded | PodPhase::Failed => 0,
    };
    // Pods that have been ready for nearly the same time are ordered by UID. Pods with exactly the same ready time form a group: its
    // position is that of its lowest UID, and the following criteria decide within the group.
    let since = pod.ready_since();
    let group = since
        .and_then(|since| first_uid_by_ready_time.get(&since))
        .cloned();
    (
        (
            !pod.spec.node_name.is_empty(),
            phase,
            pod.is_ready(),
            deletion_cost(pod),
            Reverse(related_on_node),
        ),
        (since.map(|since| log_age(since, now)), group.unwrap_or_default()),
        (Reverse(container_restarts(pod)), Reverse(sidecar_restarts(pod))),
        (
            pod.metadata
                .creation_timestamp
                .map(|created| log_age(created, now)),
            pod.metadata.uid.clone(),
        ),
    )
}

// upstream: pkg/controller/controller_utils.go logarithmicRankDiff
fn log_age(then: Timestamp, now: Timestamp) -> i32 {
    let age = now.duration_since(then).as_nanos();
    age.checked_ilog2().map_or(-1, u32::cast_signed)
}

/// The highest restart count of the containers.
// upstream: pkg/controller/controller_utils.go maxContainerRestarts, compareMaxContainerRestarts
fn container_restarts(pod: &Pod) -> u32 {
    max_restarts(pod.status.container_statuses.iter())
}

/// The highest restart count of the sidecars (restartable init containers).
// upstream: pkg/controller/controller_utils.go maxContainerRestarts, compareMaxContainerRestarts
fn sidecar_restarts(pod: &Pod) -> u32 {
    let containers = pod.status.init_container_statuses.iter();
    max_restarts(containers.filter(|container| pod.is_sidecar(&container.name)))
}

fn max_restarts<'a>(containers: impl Iterator<Item = &'a ContainerStatus>) -> u32 {
    let counts = containers.map(|container| container.restart_count);
    counts.max().unwrap_or(0)
}

/// The deletion cost annotation. A value that is not a plain number counts as zero.
fn deletion_cost(pod: &Pod) -> i32 {
    let cost = pod.metadata.annotation(DELETION_COST).unwrap_or("0");
    let is_plain =
        cost == "0" || cost.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    if is_plain { cost.parse().unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T10:00:00Z";

    fn pod(uid: &str, text: &Value) -> Arc<Pod> {
        let mut tree = json!({
            "metadata": {"uid": uid, "name": uid, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        });
        merge(&mut tree, text);
        Arc::new(serde_json::from_value(tree).unwrap())
    }

    fn merge(tree: &mut Value, patch: &Value) {
        if let (Value::Object(fields), Value::Object(patch)) = (&mut *tree, patch) {
            for (name, value) in patch {
                merge(fields.entry(name.clone()).or_insert(Value::Null), value);
            }
        } else {
            *tree = patch.clone();
        }
    }

    fn ready(since: &str) -> Value {
        json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}})
    }

    fn order(pods: &[Arc<Pod>], related: &[Arc<Pod>]) -> Vec<String> {
        let now = NOW.parse().unwrap();
        // Deleting all pods but one shows the whole order.
        let chosen = pods_to_delete(pods.to_vec(), related, pods.len() - 1, now);
        chosen.iter().map(|pod| pod.metadata.uid.to_string()).collect()
    }

    #[test]
    fn orders_pods_by_each_criterion() {
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let restarted = json!({"status": {"containerStatuses": [{"name": "c", "restartCount": 3}]}});
        let sidecars = json!({
            "spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {"initContainerStatuses": [{"name": "s", "restartCount": 3}]},
        });
        let before = json!({"status": {"initContainerStatuses": [{"name": "s", "restartCount": 9}]}});
        // Of each pair the first pod is deleted first although its UID is greater.
        let cases = [
            ("no node", json!({"spec": {"nodeName": ""}}), not_ready.clone()),
            (
                "pending",
                json!({"status": {"phase": "Pending"}}),
                json!({"status": {"phase": "Unknown"}}),
            ),
            ("unknown", json!({"status": {"phase": "Unknown"}}), json!({})),
            (
                "not ready",
                not_ready,
                json!({"metadata": {"annotations": {DELETION_COST: "-9"}}}),
            ),
            (
                "cheaper",
                json!({"metadata": {"annotations": {DELETION_COST: "-1"}}}),
                json!({"metadata": {"annotations": {DELETION_COST: "+5"}}}),
            ),
            ("ready later", ready("2026-01-01T09:59:00Z"), restarted.clone()),
            ("restarted", restarted, json!({})),
            ("restarted beside", sidecars, before),
            (
                "younger",
                json!({"metadata": {"creationTimestamp": "2026-01-01T09:00:00Z"}}),
                json!({}),
            ),
        ];
        for (why, first, second) in cases {
            let pods = [pod("a", &second), pod("b", &first)];
            assert_eq!(order(&pods, &[]), ["b"], "{why}");
        }
    }

    #[test]
    fn deletes_pods_on_nodes_with_more_related_pods_first() {
        let crowded = pod("b", &json!({}));
        let alone = pod("a", &json!({"spec": {"nodeName": "n2"}}));
        let related = [crowded.clone(), alone.clone(), pod("c", &json!({}))];
        assert_eq!(order(&[alone.clone(), crowded.clone()], &related), ["b"]);
        let ended = [
            crowded.clone(),
            alone.clone(),
            pod("c", &json!({"status": {"phase": "Failed"}})),
        ];
        assert_eq!(order(&[alone, crowded], &ended), ["a"]);
    }

    #[test]
    fn ignores_age_differences_within_a_power_of_two() {
        // Eight and nine hours are the same power of two; one hour is not.
        let pods = [
            pod("c", &ready("2026-01-01T02:00:00Z")),
            pod("b", &ready("2026-01-01T01:00:00Z")),
            pod("d", &ready("2026-01-01T09:00:00Z")),
            pod("a", &ready("2026-01-01T01:30:00Z")),
        ];
        assert_eq!(order(&pods, &[]), ["d", "a", "b"]);
    }
}
