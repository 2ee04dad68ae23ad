//! Marks pods of unready nodes as not ready.

use k3_workloads::{ConditionStatus, Node, Pod};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::{Delta, Informer},
    store::Store,
};
use serde_json::json;

use crate::{
    event_message::EventMessage,
    patch_values::truncate_to_second,
    resource::PODS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Processes pods that are new on a node. Later their kubelet reports their status.
pub(super) struct NewPodReconciler {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) nodes: Store<Node>,
    pub(super) pods: Informer<Pod>,
}

/// Whether a pod is new on a node, and ready.
pub(super) fn new_ready_pod_predicate() -> Predicate<Pod> {
    Predicate::new(|delta: &Delta<Pod>| {
        let Some(pod) = delta.new() else {
            return false;
        };
        let is_there = delta
            .old()
            .is_some_and(|old| old.spec.node_name == pod.spec.node_name);
        !pod.spec.node_name.is_empty() && !is_there && pod.is_ready()
    })
}

/// Sets Ready=False, unless it is. Returns the new resourceVersion.
// upstream: pkg/controller/util/node/controller_utils.go MarkPodsNotReady
pub(super) async fn mark_not_ready(
    writer: &ApiWriter,
    recorder: &EventRecorder,
    clock: &Clock,
    pod: &Pod,
) -> Result<Option<Box<str>>, Error> {
    if !pod.is_ready() {
        return Ok(None);
    }
    let object_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name).subresource("status");
    let condition =
        json!({"type": "Ready", "status": "False", "lastTransitionTime": truncate_to_second(clock.now())});
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
    let written = match writer
        .strategic_merge_patch::<WrittenObject>(object_ref, &patch)
        .await
    {
        // The pod was deleted; another one may have its name.
        Err(error) if has_status_code(&error, 404) || has_status_code(&error, 409) => return Ok(None),
        other => other?,
    };
    EventMessage::warning("NodeNotReady", "Node is not ready")
        .record(recorder, &PODS.object_reference(&pod.metadata));
    Ok(Some(written.metadata.resource_version))
}

// --- NewPodReconciler ---

impl Reconciler for NewPodReconciler {
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go processPod
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let node = self.nodes.get(&kubecontroller::Key::new("", &pod.spec.node_name));
        let is_down = node
            .and_then(|node| node.condition("Ready"))
            .is_some_and(|status| status != ConditionStatus::True);
        if is_down {
            let marked = mark_not_ready(&self.writer, &self.recorder, &self.clock, &pod).await?;
            if let Some(version) = marked {
                request.record_write(&self.pods, &version);
            }
        }
        Ok(Outcome::Done)
    }
}
