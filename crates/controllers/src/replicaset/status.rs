//! The status of a ReplicaSet.

use std::{sync::Arc, time::Duration};

use k3_workloads::{Condition, ConditionStatus, Pod};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::selector::Selector;
use serde_json::{Value, json};

use crate::{
    objects::{ReplicaSpec, ReplicaStatus},
    patch_values,
};

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// A set with its pods at one point in time.
pub(super) struct ObservedReplicaSet<'a, S> {
    pub(super) spec: &'a ReplicaSpec<S>,
    pub(super) generation: i64,
    pub(super) before: &'a ReplicaStatus,
    /// Active pods.
    pub(super) active: &'a [Arc<Pod>],
    /// Number of terminating pods; `None` if the kind does not report it.
    pub(super) terminating: Option<usize>,
    /// Why pods could not be created or deleted.
    pub(super) failure: Option<&'a str>,
    pub(super) now: Timestamp,
}

impl<S: AsRef<Selector>> ObservedReplicaSet<'_, S> {
    // upstream: pkg/controller/replicaset/replica_set_utils.go calculateStatus
    pub(super) fn status(&self) -> ReplicaStatus {
        let labels = Selector::from_labels(self.spec.template.labels());
        let count =
            |is: &dyn Fn(&Pod) -> bool| saturating_count(self.active.iter().filter(|pod| is(pod)).count());
        ReplicaStatus {
            replicas: saturating_count(self.active.len()),
            fully_labeled_replicas: count(&|pod| labels.matches(&pod.metadata.labels)),
            ready_replicas: count(&Pod::is_ready),
            available_replicas: count(&|pod| pod.is_available(self.spec.min_ready_seconds, self.now)),
            terminating_replicas: self.terminating.map(saturating_count),
            observed_generation: self.generation,
            conditions: self.conditions(),
        }
    }

    /// Time until the next pod becomes available; `None` if no pod is waiting for minReadySeconds.
    pub(super) fn next_available(&self) -> Option<Duration> {
        let pods = self.active.iter();
        pods.filter_map(|pod| pod.available_in(self.spec.min_ready_seconds, self.now))
            .min()
    }

    /// A failure is reported once, with its first message, until it is resolved.
    fn conditions(&self) -> Vec<Condition> {
        let mut conditions = self.before.conditions.clone();
        match self.failure {
            None => conditions.retain(|condition| &*condition.kind != REPLICA_FAILURE),
            Some(_) if Condition::find(&conditions, REPLICA_FAILURE).is_some() => {}
            Some(failure) => {
                let reason = if saturating_count(self.active.len()) < self.spec.replicas {
                    "FailedCreate"
                } else {
                    "FailedDelete"
                };
                conditions.push(Condition {
                    kind: REPLICA_FAILURE.into(),
                    status: ConditionStatus::True,
                    reason: reason.into(),
                    message: failure.into(),
                    last_transition_time: Some(patch_values::truncate_to_second(self.now)),
                    ..Condition::default()
                });
            }
        }
        conditions
    }
}

/// The patch that replaces the status at a resourceVersion.
pub(super) fn status_patch(status: &ReplicaStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "replicas": status.replicas,
            "fullyLabeledReplicas": patch_values::count(status.fully_labeled_replicas),
            "readyReplicas": patch_values::count(status.ready_replicas),
            "availableReplicas": patch_values::count(status.available_replicas),
            "terminatingReplicas": status.terminating_replicas,
            "observedGeneration": status.observed_generation,
            "conditions": patch_values::list(&status.conditions),
        },
    })
}

fn saturating_count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T00:01:00.5Z";

    fn pod(label: &str, ready: Option<&str>) -> Arc<Pod> {
        let conditions =
            ready.map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let tree = json!({"metadata": {"labels": {"app": label}}, "status": {"conditions": conditions.unwrap_or(json!([]))}});
        Arc::new(serde_json::from_value(tree).unwrap())
    }

    fn spec(replicas: i32, min_ready_seconds: i32) -> ReplicaSpec<Selector> {
        let tree = json!({
            "replicas": replicas, "minReadySeconds": min_ready_seconds, "selector": {"matchExpressions": []},
            "template": {"metadata": {"labels": {"app": "a"}}},
        });
        serde_json::from_value(tree).unwrap()
    }

    fn seen<'a>(
        spec: &'a ReplicaSpec<Selector>,
        before: &'a ReplicaStatus,
        active: &'a [Arc<Pod>],
        failure: Option<&'a str>,
    ) -> ObservedReplicaSet<'a, Selector> {
        ObservedReplicaSet {
            spec,
            generation: 3,
            before,
            active,
            terminating: Some(2),
            failure,
            now: NOW.parse().unwrap(),
        }
    }

    #[test]
    fn counts_pods_by_label_readiness_and_availability() {
        let pods = [
            pod("a", Some("2026-01-01T00:00:30Z")),
            pod("a", Some("2026-01-01T00:00:50Z")),
            pod("a", Some("2026-01-01T00:00:55Z")),
            pod("b", None),
        ];
        let spec = spec(4, 30);
        let before = ReplicaStatus::default();
        let observed = seen(&spec, &before, &pods, None);
        assert_eq!(
            observed.status(),
            ReplicaStatus {
                replicas: 4,
                fully_labeled_replicas: 3,
                ready_replicas: 3,
                available_replicas: 1,
                terminating_replicas: Some(2),
                observed_generation: 3,
                conditions: Vec::new(),
            }
        );
        assert_eq!(observed.next_available(), Some(Duration::from_millis(19_500)));
    }

    #[test]
    fn reports_a_failure_until_it_is_resolved() {
        let spec = spec(2, 0);
        let healthy = ReplicaStatus::default();
        let pods = [pod("a", None)];
        let failed = seen(&spec, &healthy, &pods, Some("quota")).status();
        let condition = Condition::find(&failed.conditions, REPLICA_FAILURE).unwrap();
        assert_eq!(
            (&*condition.reason, &*condition.message),
            ("FailedCreate", "quota")
        );
        assert_eq!(
            condition.last_transition_time.unwrap().to_string(),
            "2026-01-01T00:01:00Z"
        );
        let still = seen(&spec, &failed, &pods, Some("other words")).status();
        assert_eq!(still.conditions, failed.conditions);
        assert_eq!(seen(&spec, &failed, &pods, None).status().conditions, []);
        let three = [pod("a", None), pod("a", None), pod("a", None)];
        let deleting = seen(&spec, &healthy, &three, Some("no")).status();
        assert_eq!(&*deleting.conditions[0].reason, "FailedDelete");
    }

    #[test]
    fn removes_zero_counts() {
        let patch = status_patch(
            &ReplicaStatus {
                terminating_replicas: Some(0),
                ..ReplicaStatus::default()
            },
            "7",
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let status = &patch["status"];
        assert_eq!(
            (&status["replicas"], &status["terminatingReplicas"]),
            (&json!(0), &json!(0))
        );
        for name in [
            "readyReplicas",
            "availableReplicas",
            "fullyLabeledReplicas",
            "conditions",
        ] {
            assert_eq!(status[name], Value::Null, "{name}");
        }
    }
}
