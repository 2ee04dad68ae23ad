//! Pods of a node that is not ready are not ready either, whatever they said last.

use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Predicate, Reconciler, Request},
    events::EventRecorder,
    informer::{Delta, Informer},
    store::Store,
};
use serde_json::json;

use crate::{
    news::News,
    objects::{ConditionStatus, Node, Pod},
    resource::PODS,
    writer::{Made, Place, Writer, is},
    written::second,
};

/// Looks at pods that come to a node. Later the node itself says how they are.
pub(super) struct Arrivals {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) nodes: Store<Node>,
    pub(super) pods: Informer<Pod>,
}

/// Whether a pod is seen on a node for the first time, and says that it is ready.
pub(super) fn arrives() -> Predicate<Pod> {
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

/// Writes down that a pod is not ready, unless that is known. Gives its version then.
pub(super) async fn mark(
    writer: &Writer,
    recorder: &EventRecorder,
    clock: &Clock,
    pod: &Pod,
) -> Result<Option<Box<str>>, Error> {
    if !pod.is_ready() {
        return Ok(None);
    }
    let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name).part("status");
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": second(clock.now())});
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
    let made = match writer.merge_lists::<Made>(place, &patch).await {
        // It is gone; another may have its name.
        Err(error) if is(&error, 404) || is(&error, 409) => return Ok(None),
        other => other?,
    };
    News::warning("NodeNotReady", "Node is not ready").tell(recorder, &pod.metadata.reference(&PODS));
    Ok(Some(made.metadata.resource_version))
}

// --- Arrivals ---

impl Reconciler for Arrivals {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(pod) = self.pods.store().get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let node = self.nodes.get(&kubecontroller::Key::new("", &pod.spec.node_name));
        let is_down = node
            .and_then(|node| node.condition("Ready"))
            .is_some_and(|status| status != ConditionStatus::True);
        if is_down {
            let marked = mark(&self.writer, &self.recorder, &self.clock, &pod).await?;
            if let Some(version) = marked {
                request.record_write(&self.pods, &version);
            }
        }
        Ok(Outcome::Done)
    }
}
