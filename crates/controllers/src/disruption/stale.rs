//! Takes back that a pod is about to be disrupted, if nobody does it: whoever said so has changed their mind or died.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    informer::{Delta, Informer},
};
use serde_json::json;

use crate::{
    context::{Context, Task},
    objects::{Condition, ConditionStatus, Pod},
    resource::PODS,
    writer::{Made, Place, Writer, is},
    written,
};

const TARGET: &str = "DisruptionTarget";
/// The node takes its time between saying so and doing it.
const BY_NODE: &str = "TerminationByKubelet";
/// Others have so much time.
const LONGEST: SignedDuration = SignedDuration::from_mins(2);

struct Cleaner {
    writer: Writer,
    clock: Clock,
    pods: Informer<Pod>,
}

/// What runs.
pub(super) fn make(context: &Context) -> Task {
    let pods = context.pods();
    let cleaner = Cleaner {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        pods: pods.clone(),
    };
    let is_said = |delta: &Delta<Pod>| delta.new().is_some_and(|pod| said(pod).is_some());
    let controller = context
        .controller("stale_pod_disruption")
        .for_where(&pods, Predicate::new(is_said));
    Box::new(controller.reconciler(cleaner))
}

/// The condition that says so of a pod that is not going.
fn said(pod: &Pod) -> Option<&Condition> {
    let condition = Condition::find(&pod.status.conditions, TARGET)?;
    let is_said =
        condition.status == ConditionStatus::True && &*condition.reason != BY_NODE && pod.is_active();
    is_said.then_some(condition)
}

/// How long that may be said of a pod yet; `None` if it is not.
fn time_left(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = said(pod)?.last_transition_time;
    let age = since.map_or(LONGEST, |since| now.duration_since(since));
    Some(Duration::try_from(LONGEST - age).unwrap_or_default())
}

impl Reconciler for Cleaner {
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
                "type": TARGET,
                "status": "False",
                "observedGeneration": (meta.generation != 0).then_some(meta.generation),
                "lastTransitionTime": written::second(now),
                "lastProbeTime": null,
                "reason": null,
                "message": null,
            }]},
        });
        let place = Place::new(&PODS, &meta.namespace, &meta.name).part("status");
        match self.writer.merge_lists::<Made>(place, &patch).await {
            Ok(made) => request.record_write(&self.pods, &made.metadata.resource_version),
            Err(error) if is(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_may_be_said_for_two_minutes() {
        let pod = |phase: &str, status: &str, reason: &str, going: Option<&str>| {
            let condition = json!({"type": TARGET, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let pod = json!({"metadata": {"deletionTimestamp": going}, "status": {"phase": phase, "conditions": [condition]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        for (pod, left) in [
            (pod("Running", "True", "EvictionByEvictionAPI", None), Some(90)),
            (pod("Running", "False", "EvictionByEvictionAPI", None), None),
            (pod("Running", "True", BY_NODE, None), None),
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
