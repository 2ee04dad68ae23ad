//! Deletes pods from nodes with NoExecute taints, after tolerationSeconds.

use std::collections::HashMap;

use k3_workloads::{Condition, ConditionStatus, Node, Pod};
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    metrics::{MetricDesc, Metrics},
    store::Store,
    writer::{ApiWriter, ObjectRef, delete_options_for_uid, has_status_code},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::toleration_time::{PodDecision, TolerationTime, no_execute_taints};
use crate::{
    context::ControllerContext, event_message::EventMessage, patch_values::truncate_to_second, resource::PODS,
};

const REASON: &str = "DeletionByTaintManager";
const MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

const DELETIONS: MetricDesc = MetricDesc::counter(
    "taint_eviction_controller_pod_deletions_total",
    "Total number of Pods deleted by TaintEvictionController since its start.",
    &[],
);
const DELETION_TIME: MetricDesc = MetricDesc::histogram(
    "taint_eviction_controller_pod_deletion_duration_seconds",
    "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion via TaintEvictionController.",
    &[],
    &[
        0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
    ],
);

// upstream: pkg/controller/tainteviction/taint_eviction.go Controller
pub(super) struct TaintEvictionController {
    metrics: Metrics,
    writer: ApiWriter,
    recorder: EventRecorder,
    clock: Clock,
    nodes: Store<Node>,
    pods: Store<Pod>,
    scheduled: Mutex<HashMap<Key, ScheduledDeletion>>,
}

/// A scheduled deletion.
struct ScheduledDeletion {
    uid: Box<str>,
    at: Instant,
    /// Whether the event for the deletion was recorded.
    is_event_recorded: bool,
    /// Whether the pod was deleted.
    is_deleted: bool,
}

// --- TaintEvictionController ---

impl TaintEvictionController {
    pub(super) fn new(context: &ControllerContext, nodes: Store<Node>, pods: Store<Pod>) -> Self {
        TaintEvictionController {
            metrics: context.metrics.clone(),
            writer: context.writer.clone(),
            recorder: context.recorder.clone(),
            clock: context.clock.clone(),
            nodes,
            pods,
            scheduled: Mutex::default(),
        }
    }

    fn scheduled(&self) -> MutexGuard<'_, HashMap<Key, ScheduledDeletion>> {
        self.scheduled.lock()
    }

    /// Cancels a scheduled deletion, with an event if it was in the future.
    // upstream: pkg/controller/tainteviction/taint_eviction.go cancelWorkWithEvent
    fn cancel(&self, key: &Key) {
        let scheduled = self.scheduled().remove(key);
        if scheduled.is_some_and(|scheduled| !scheduled.is_event_recorded && scheduled.at > Instant::now()) {
            self.record_event(key, "Cancelling deletion of Pod");
        }
    }

    // upstream: pkg/controller/tainteviction/taint_eviction.go emitPodDeletionEvent, emitCancelPodDeletionEvent
    fn record_event(&self, key: &Key, what: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(key.name().to_owned()),
            namespace: Some(key.namespace().to_owned()),
            ..ObjectReference::default()
        };
        let message = format_args!("{what} {}/{}", key.namespace(), key.name());
        EventMessage::normal("TaintManagerEviction", message).record(&self.recorder, &about);
    }

    /// What to do with a pod now.
    // upstream: pkg/controller/tainteviction/taint_eviction.go processPodOnNode
    fn plan(&self, key: &Key, pod: &Pod) -> PodDecision {
        let now = Instant::now();
        let before = {
            let mut scheduled = self.scheduled();
            if scheduled
                .get(key)
                .is_some_and(|before| before.uid != pod.metadata.uid)
            {
                scheduled.remove(key);
            }
            match scheduled.get(key) {
                Some(before) if before.is_deleted => return PodDecision::Keep,
                before => before.map(|before| before.at),
            }
        };
        let node = self.nodes.get(&Key::new("", &pod.spec.node_name));
        let stay = match &node {
            Some(node) => TolerationTime::of(no_execute_taints(node), &pod.spec.template.tolerations),
            // The node was deleted, and its taints with it; scheduled deletions are kept.
            None => match before {
                Some(at) if at > now => return PodDecision::At(at),
                Some(_) => return PodDecision::Now { cancels: false },
                None => return PodDecision::Keep,
            },
        };
        let plan = PodDecision::new(stay, before, now);
        match plan {
            PodDecision::Keep | PodDecision::Now { cancels: true } => self.cancel(key),
            PodDecision::At(_) | PodDecision::Now { cancels: false } => {}
        }
        let at = match plan {
            PodDecision::Keep => return plan,
            PodDecision::At(at) => at,
            PodDecision::Now { .. } => now,
        };
        self.scheduled()
            .entry(key.clone())
            .or_insert_with(|| ScheduledDeletion {
                uid: pod.metadata.uid.clone(),
                at,
                is_event_recorded: false,
                is_deleted: false,
            });
        plan
    }

    // upstream: pkg/controller/tainteviction/taint_eviction.go addConditionAndDeletePod
    async fn evict(&self, key: &Key, pod: &Pod) -> Result<(), Error> {
        let was_recorded = (self.scheduled().get_mut(key))
            .is_some_and(|scheduled| std::mem::replace(&mut scheduled.is_event_recorded, true));
        if !was_recorded {
            self.record_event(key, "Marking for deletion Pod");
        }
        let object_ref = ObjectRef::new(&PODS, key.namespace(), key.name());
        let target = Condition::find(&pod.status.conditions, "DisruptionTarget");
        let is_target = target.is_some_and(|target| target.status == ConditionStatus::True);
        if !is_target || target.is_some_and(|target| &*target.reason != REASON) {
            let mut condition = json!({"type": "DisruptionTarget", "status": "True", "reason": REASON, "message": MESSAGE,
                "observedGeneration": pod.metadata.generation});
            if !is_target {
                condition["lastTransitionTime"] = json!(truncate_to_second(self.clock.now()));
            }
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
            let marked = self
                .writer
                .strategic_merge_patch::<Value>(object_ref.subresource("status"), &patch);
            match marked.await {
                Err(error) if is_pod_deleted(&error) => return Ok(()),
                other => other?,
            };
        }
        match self
            .writer
            .delete(object_ref, &delete_options_for_uid(&pod.metadata.uid))
            .await
        {
            Err(error) if is_pod_deleted(&error) => Ok(()),
            other => Ok(other?),
        }
    }
}

impl Reconciler for TaintEvictionController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(pod) = self.pods.get(key) else {
            self.cancel(key);
            return Ok(Outcome::Done);
        };
        if pod.spec.node_name.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.plan(key, &pod) {
            PodDecision::Keep => Ok(Outcome::Done),
            PodDecision::At(at) => Ok(Outcome::RequeueAfter(
                at.saturating_duration_since(Instant::now()),
            )),
            // The pod is already being deleted.
            PodDecision::Now { .. } if pod.metadata.is_terminating() => Ok(Outcome::Done),
            PodDecision::Now { .. } => {
                self.evict(key, &pod).await?;
                self.metrics.increment(&DELETIONS, &[], 1);
                if let Some(scheduled) = self.scheduled().get_mut(key) {
                    scheduled.is_deleted = true;
                    self.metrics
                        .observe(&DELETION_TIME, &[], scheduled.at.elapsed().as_secs_f64());
                }
                Ok(Outcome::Done)
            }
        }
    }
}

/// Whether a pod was deleted; another one may have its name.
fn is_pod_deleted(error: &kube::Error) -> bool {
    has_status_code(error, 404) || has_status_code(error, 409)
}
