//! Computes the status of a PodDisruptionBudget.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k3_workloads::{Condition, ConditionStatus, IntOrString, Pod, Rounding};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    objects::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    patch_values,
};

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// A pod whose eviction was granted has to be terminating after this time (DeletionTimeout).
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// Expected and required pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedPodCount {
    /// expectedPods.
    pub(super) expected: i32,
    /// desiredHealthy.
    pub(super) healthy: i32,
}

/// Pods whose eviction was granted (status.disruptedPods).
#[derive(Debug, Default)]
pub(super) struct DisruptedPods {
    /// Pods that are not terminating yet, and when the eviction was granted.
    pub(super) pending: BTreeMap<Box<str>, Timestamp>,
    /// Pods that should be terminating and are not.
    pub(super) failed: Vec<Arc<Pod>>,
    /// When the next one times out.
    pub(super) next: Option<Duration>,
}

// --- ExpectedPodCount ---

impl ExpectedPodCount {
    /// Whether it depends on the scale of the pods' controllers.
    pub(super) fn needs_scale(spec: &PodDisruptionBudgetSpec) -> bool {
        spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
    }

    /// For so many pods; `scale` is the total scale of their controllers.
    // upstream: pkg/controller/disruption/disruption.go getExpectedPodCount
    pub(super) fn new(spec: &PodDisruptionBudgetSpec, pods: usize, scale: i32) -> Self {
        let of_scale = |healthy| ExpectedPodCount {
            expected: scale,
            healthy,
        };
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(max), _) => of_scale(scale.saturating_sub(max.scaled_value(scale, Rounding::Up)).max(0)),
            (None, Some(IntOrString::Int(min))) => ExpectedPodCount {
                expected: i32::try_from(pods).unwrap_or(i32::MAX),
                healthy: *min,
            },
            (None, Some(min)) => of_scale(min.scaled_value(scale, Rounding::Up)),
            (None, None) => ExpectedPodCount {
                expected: 0,
                healthy: 0,
            },
        }
    }
}

// --- DisruptedPods ---

impl DisruptedPods {
    /// Checks pods with a granted eviction.
    // upstream: pkg/controller/disruption/disruption.go buildDisruptedPodMap
    pub(super) fn new(status: &PodDisruptionBudgetStatus, pods: &[Arc<Pod>], now: Timestamp) -> Self {
        let mut disrupted_pods = DisruptedPods::default();
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            let Some(allowed) = status.disrupted_pods.get(&pod.metadata.name) else {
                continue;
            };
            let left = DELETION_TIMEOUT - now.duration_since(*allowed);
            match Duration::try_from(left) {
                Ok(left) => {
                    disrupted_pods.pending.insert(pod.metadata.name.clone(), *allowed);
                    // After the deadline, not at it.
                    let left = left + Duration::from_millis(1);
                    disrupted_pods.next = disrupted_pods.next.into_iter().chain([left]).min();
                }
                Err(_) => disrupted_pods.failed.push(Arc::clone(pod)),
            }
        }
        disrupted_pods
    }

    /// currentHealthy: ready pods without a granted eviction.
    // upstream: pkg/controller/disruption/disruption.go countHealthyPods
    pub(super) fn healthy(&self, pods: &[Arc<Pod>]) -> i32 {
        let stays = |pod: &&Arc<Pod>| {
            !pod.metadata.is_terminating() && !self.pending.contains_key(&pod.metadata.name) && pod.is_ready()
        };
        i32::try_from(pods.iter().filter(stays).count()).unwrap_or(i32::MAX)
    }
}

/// The new status.
// upstream: pkg/controller/disruption/disruption.go updatePdbStatus
pub(super) fn status(
    budget: &PodDisruptionBudget,
    expected_pod_count: ExpectedPodCount,
    pending: BTreeMap<Box<str>, Timestamp>,
    healthy: i32,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    // A budget without pods: they may be created at any moment.
    let allowed = if expected_pod_count.expected > 0 {
        healthy.saturating_sub(expected_pod_count.healthy).max(0)
    } else {
        0
    };
    let mut status = PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods: pending,
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: expected_pod_count.healthy,
        expected_pods: expected_pod_count.expected,
        conditions: budget.status.conditions.clone(),
    };
    let reason = if allowed > 0 {
        "SufficientPods"
    } else {
        "InsufficientPods"
    };
    let is_said = Condition::find(&status.conditions, DISRUPTION_ALLOWED).is_some_and(|condition| {
        condition.status == (allowed > 0).into()
            && &*condition.reason == reason
            && budget.status.observed_generation == budget.metadata.generation
    });
    if !is_said {
        set_condition(&mut status, (allowed > 0).into(), reason, "", now);
    }
    status
}

/// The status when counts are unknown: nothing is allowed.
// upstream: pkg/controller/disruption/disruption.go failSafe
pub(super) fn fail_safe_status(
    budget: &PodDisruptionBudget,
    why: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let mut status = PodDisruptionBudgetStatus {
        disruptions_allowed: 0,
        ..budget.status.clone()
    };
    set_condition(&mut status, ConditionStatus::False, "SyncFailed", why, now);
    status
}

fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    holds: ConditionStatus,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let generation = status.observed_generation;
    let old = Condition::find(&status.conditions, DISRUPTION_ALLOWED);
    let since = old
        .filter(|old| old.status == holds)
        .and_then(|old| old.last_transition_time);
    let mut condition = Condition {
        kind: DISRUPTION_ALLOWED.into(),
        status: holds,
        reason: reason.into(),
        message: message.into(),
        last_transition_time: Some(since.unwrap_or_else(|| patch_values::truncate_to_second(now))),
        ..Condition::default()
    };
    if generation != 0 {
        condition
            .other
            .insert("observedGeneration".to_owned(), generation.into());
    }
    match status
        .conditions
        .iter_mut()
        .find(|old| &*old.kind == DISRUPTION_ALLOWED)
    {
        Some(old) => *old = condition,
        None => status.conditions.push(condition),
    }
}

/// The patch for the status at a resourceVersion.
pub(super) fn status_patch(
    status: &PodDisruptionBudgetStatus,
    old: &PodDisruptionBudgetStatus,
    version: &str,
) -> Value {
    let conditions = status.conditions.iter().map(|condition| {
        let mut written = json!(condition);
        // Present even if it is empty.
        written["message"] = json!(condition.message);
        written
    });
    let deleted = old
        .disrupted_pods
        .keys()
        .filter(|pod| !status.disrupted_pods.contains_key(*pod));
    let deleted = deleted.map(|pod| (pod.to_string(), Value::Null));
    let pending = status
        .disrupted_pods
        .iter()
        .map(|(pod, time)| (pod.to_string(), json!(time)));
    let disrupted: serde_json::Map<_, _> = deleted.chain(pending).collect();
    let disrupted = if status.disrupted_pods.is_empty() {
        Value::Null
    } else {
        disrupted.into()
    };
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": (status.observed_generation != 0).then_some(status.observed_generation),
            "disruptedPods": disrupted,
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "conditions": conditions.collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        let mut budget = json!({"metadata": {"generation": 2}});
        budget["spec"] = spec;
        budget["status"] = status;
        serde_json::from_value(budget).unwrap()
    }

    fn pod(name: &str, ready: &str, deletion_timestamp: Option<&str>) -> Arc<Pod> {
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        let pod =
            json!({"metadata": {"name": name, "deletionTimestamp": deletion_timestamp}, "status": status});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn at(time: &str) -> Timestamp {
        format!("2026-01-01T00:{time}Z").parse().unwrap()
    }

    #[test]
    fn computes_expected_pod_count() {
        for (spec, pods, scale, expected, healthy) in [
            (json!({"minAvailable": 2}), 3, 9, 3, 2),
            (json!({"minAvailable": "50%"}), 3, 5, 5, 3),
            (json!({"maxUnavailable": 1}), 3, 5, 5, 4),
            (json!({"maxUnavailable": 7}), 3, 5, 5, 0),
            (json!({"maxUnavailable": "30%"}), 3, 5, 5, 3),
            (json!({}), 3, 5, 0, 0),
        ] {
            let expected_pod_count =
                ExpectedPodCount::new(&budget(spec.clone(), json!({})).spec, pods, scale);
            assert_eq!(
                expected_pod_count,
                ExpectedPodCount { expected, healthy },
                "{spec}"
            );
        }
    }

    #[test]
    fn excludes_disrupted_pods_from_healthy() {
        let evicted = json!({"disruptedPods": {"a": "2026-01-01T00:00:00Z", "b": "2026-01-01T00:01:00Z",
            "c": "2026-01-01T00:01:00Z", "deleted": "2026-01-01T00:01:00Z"}});
        let status = budget(json!({}), evicted).status;
        let pods = [
            pod("a", "True", None),
            pod("b", "True", None),
            pod("c", "True", Some("2026-01-01T00:00:00Z")),
            pod("d", "True", None),
            pod("e", "False", None),
        ];
        let disrupted_pods = DisruptedPods::new(&status, &pods, at("02:00.5"));
        let failed: Vec<_> = disrupted_pods
            .failed
            .iter()
            .map(|pod| &*pod.metadata.name)
            .collect();
        assert_eq!((failed, disrupted_pods.pending.len()), (vec!["a"], 1));
        assert_eq!(disrupted_pods.next, Some(Duration::from_millis(59_501)));
        assert_eq!(disrupted_pods.healthy(&pods), 2);
        let disrupted_pods = DisruptedPods::new(&status, &pods, at("02:00"));
        assert_eq!(
            (disrupted_pods.failed.len(), disrupted_pods.healthy(&pods)),
            (0, 1)
        );
    }

    #[test]
    fn computes_disruptions_allowed() {
        for (expected, healthy, demanded, allowed, reason) in [
            (3, 3, 2, 1, "SufficientPods"),
            (3, 1, 2, 0, "InsufficientPods"),
            (0, 3, 0, 0, "InsufficientPods"),
        ] {
            let budget = budget(json!({}), json!({}));
            let expected_pod_count = ExpectedPodCount {
                expected,
                healthy: demanded,
            };
            let status = status(&budget, expected_pod_count, BTreeMap::new(), healthy, at("01:00"));
            assert_eq!(
                (status.disruptions_allowed, &*status.conditions[0].reason),
                (allowed, reason)
            );
            assert_eq!(status.conditions[0].other["observedGeneration"], 2);
        }
    }

    #[test]
    fn keeps_condition_transition_time() {
        let before = json!({"observedGeneration": 1, "conditions": [{"type": DISRUPTION_ALLOWED, "status": "False",
            "reason": "InsufficientPods", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let budget = budget(json!({}), before);
        let reported = fail_safe_status(&budget, "no scale", at("01:00"));
        let condition = &reported.conditions[0];
        assert_eq!(
            (&*condition.reason, &*condition.message),
            ("SyncFailed", "no scale")
        );
        assert_eq!(condition.last_transition_time, Some(at("00:00")));
        assert_eq!(
            fail_safe_status(
                &PodDisruptionBudget {
                    status: reported.clone(),
                    ..budget.clone()
                },
                "no scale",
                at("02:00")
            ),
            reported
        );
        let expected_pod_count = ExpectedPodCount {
            expected: 1,
            healthy: 0,
        };
        let reported = status(&budget, expected_pod_count, BTreeMap::new(), 1, at("01:00"));
        assert_eq!(reported.conditions[0].last_transition_time, Some(at("01:00")));
    }
}
