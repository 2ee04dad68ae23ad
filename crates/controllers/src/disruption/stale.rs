//! Removes stale DisruptionTarget conditions of pods that were not deleted.

use std::time::Duration;

use k3_workloads::{Condition, ConditionStatus, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::{Delta, Informer},
};
use serde_json::json;

use crate::{
    context::{ControllerContext, Task},
    patch_values,
    resource::PODS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Set by the kubelet, which may take longer.
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
/// Timeout for other sources.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(2);

// upstream: pkg/controller/disruption/disruption.go syncStalePodDisruption
struct StalePodDisruptionController {
    writer: ApiWriter,
    clock: Clock,
    pods: Informer<Pod>,
}

pub(super) fn make(context: &ControllerContext) -> Task {
    let pods = context.pods();
    let cleaner = StalePodDisruptionController {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        pods: pods.clone(),
    };
    let is_said = |delta: &Delta<Pod>| {
        delta
            .new()
            .is_some_and(|pod| disruption_target_condition(pod).is_some())
    };
    let controller = context
        .controller("disruption-controller-stale-conditions")
        .for_where(&pods, Predicate::new(is_said));
    Box::new(controller.reconciler(cleaner))
}

/// The DisruptionTarget condition of a pod that is not terminating.
fn disruption_target_condition(pod: &Pod) -> Option<&Condition> {
    let condition = Condition::find(&pod.status.conditions, DISRUPTION_TARGET)?;
    let is_said = condition.status == ConditionStatus::True
        && &*condition.reason != TERMINATION_BY_KUBELET
        && pod.is_active();
    is_said.then_some(condition)
}

/// Remaining time until the condition is stale; `None` if there is none.
// upstream: pkg/controller/disruption/disruption.go nonTerminatingPodHasStaleDisruptionCondition
fn time_left(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = disruption_target_condition(pod)?.last_transition_time;
    let age = since.map_or(STALE_AFTER, |since| now.duration_since(since));
    Some(Duration::try_from(STALE_AFTER - age).unwrap_or_default())
}

impl Reconciler for StalePodDisruptionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let now = self.clock.now();
        let pod = self.pods.store().get(&request.key);
        let Some((pod, left)) = pod.and_then(|pod| Some((pod.clone(), time_left(&pod, now)?))) else {
            return Ok(Outcome::Done);
        };
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left));
        }
        let meta = &pod.metadata;
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [{
                "type": DISRUPTION_TARGET,
                "status": "False",
                "observedGeneration": (meta.generation != 0).then_some(meta.generation),
                "lastTransitionTime": patch_values::truncate_to_second(now),
                "lastProbeTime": null,
                "reason": null,
                "message": null,
            }]},
        });
        let object_ref = ObjectRef::new(&PODS, &meta.namespace, &meta.name).subresource("status");
        match self
            .writer
            .strategic_merge_patch::<WrittenObject>(object_ref, &patch)
            .await
        {
            Ok(written) => request.record_write(&self.pods, &written.metadata.resource_version),
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disruption_target_is_stale_after_two_minutes() {
        let pod = |phase: &str, status: &str, reason: &str, terminating: Option<&str>| {
            let condition = json!({"type": DISRUPTION_TARGET, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let pod = json!({"metadata": {"deletionTimestamp": terminating}, "status": {"phase": phase, "conditions": [condition]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        for (pod, left) in [
            (pod("Running", "True", "EvictionByEvictionAPI", None), Some(90)),
            (pod("Running", "False", "EvictionByEvictionAPI", None), None),
            (pod("Running", "True", TERMINATION_BY_KUBELET, None), None),
            (pod("Failed", "True", "EvictionByEvictionAPI", None), None),
            (
                pod(
                    "Running",
                    "True",
                    "EvictionByEvictionAPI",
                    Some("2026-01-01T00:00:00Z"),
                ),
                None,
            ),
        ] {
            assert_eq!(time_left(&pod, now), left.map(Duration::from_secs), "{pod:?}");
        }
    }
}
