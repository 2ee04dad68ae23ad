//! Reconciles taints, labels and conditions of a node, and the Ready condition of its pods.

use std::sync::Arc;

use k3_workloads::{ConditionStatus, Node, Pod};
use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    events::EventRecorder,
    informer::Informer,
    store::Index,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    LEASE_NAMESPACE, labels, pods,
    state::{Lease, NodeState, SharedState, renew_time},
    taints, unknown_conditions,
};
use crate::{
    event_message::EventMessage,
    patch_values,
    resource::{LEASES, NODES},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go Controller, doNodeProcessingPassWorker
pub(super) struct NodeLifecycleController {
    pub(super) writer: ApiWriter,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) nodes: Informer<Node>,
    pub(super) leases: Informer<Lease>,
    pub(super) pods: Informer<Pod>,
    pub(super) on_node: Index<Pod>,
    pub(super) state: Arc<SharedState>,
}

// --- NodeLifecycleController ---

impl Reconciler for NodeLifecycleController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let name = request.key.name();
        let Some(node) = self.nodes.store().get(&request.key) else {
            self.forget(name);
            return Ok(Outcome::Done);
        };
        let look = self.observe(&node);
        if look.is_silent && self.mark_unknown(&node, &request).await? {
            return Ok(Outcome::Done);
        }
        self.write_taints_and_labels(&node, &look, &request).await?;
        if node.condition("Ready") == Some(ConditionStatus::Unknown) {
            for pod in self.on_node.get(name) {
                let marked = pods::mark_not_ready(&self.writer, &self.recorder, &self.clock, &pod).await?;
                if let Some(version) = marked {
                    // Until the informer delivers the write, another sync would write it again.
                    request.record_write(&self.pods, &version);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl NodeLifecycleController {
    /// Updates the shared state with a node.
    pub(super) fn observe(&self, node: &Node) -> NodeState {
        let name = &*node.metadata.name;
        let lease = renew_time(&self.leases, name);
        let look = self.state.observe_node(node, lease.as_deref(), Instant::now());
        if look.is_new {
            let message = format_args!("Node {name} event: Registered Node {name} in Controller");
            EventMessage::normal("RegisteredNode", message)
                .record(&self.recorder, &event_subject(name, &node.metadata.uid));
        }
        look
    }

    fn forget(&self, name: &str) {
        let mut state = self.state.lock();
        state.zones.forget(name);
        if let Some(uid) = state.health.forget(name) {
            let message = format_args!("Node {name} event: Removing Node {name} from Controller");
            EventMessage::normal("RemovingNode", message).record(&self.recorder, &event_subject(name, &uid));
        }
    }

    /// Writes status Unknown for a node that stopped posting status. Returns whether something changed.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth
    async fn mark_unknown(&self, node: &Node, request: &Request) -> Result<bool, Error> {
        let name = &*node.metadata.name;
        let Some(conditions) = unknown_conditions::unknown_conditions(node, self.clock.now()) else {
            return Ok(false);
        };
        // The informer may be behind: the node is read from the server.
        let lease = ObjectRef::new(&LEASES, LEASE_NAMESPACE, name);
        match self.writer.get::<Lease>(lease).await {
            Ok(lease) => {
                let time = lease.spec.renew_time.as_deref().unwrap_or_default();
                if !time.is_empty() && self.state.lock().health.renew(name, time, Instant::now()) {
                    return Ok(false);
                }
            }
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        let object_ref = ObjectRef::new(&NODES, "", name).subresource("status");
        match self.writer.merge_patch::<WrittenObject>(object_ref, &patch).await {
            Ok(written) => request.record_write(&self.nodes, &written.metadata.resource_version),
            Err(error) if has_status_code(&error, 404) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        if node.is_ready() {
            let message = format_args!("Node {name} status is now: NodeNotReady");
            EventMessage::normal("NodeNotReady", message)
                .record(&self.recorder, &event_subject(name, &node.metadata.uid));
        }
        Ok(true)
    }

    /// Writes taints and labels.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go doNoScheduleTaintingPass, reconcileNodeLabels
    async fn write_taints_and_labels(
        &self,
        node: &Node,
        look: &NodeState,
        request: &Request,
    ) -> Result<(), Error> {
        let labels = labels::desired(node);
        let taints = taints::desired(node, look.eviction, self.clock.now());
        if labels.is_empty() && taints.is_none() {
            return Ok(());
        }
        let mut patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version}});
        if !labels.is_empty() {
            let labels = labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()));
            patch["metadata"]["labels"] = labels.collect::<Map<String, Value>>().into();
        }
        if let Some(taints) = taints {
            patch["spec"]["taints"] = patch_values::list(&taints);
        }
        let object_ref = ObjectRef::new(&NODES, "", &node.metadata.name);
        match self.writer.merge_patch::<WrittenObject>(object_ref, &patch).await {
            Err(error) if has_status_code(&error, 404) => Ok(()),
            written => {
                request.record_write(&self.nodes, &written?.metadata.resource_version);
                Ok(())
            }
        }
    }
}

/// The node as the subject of events: without resourceVersion, so that events of a node are aggregated.
// upstream: pkg/controller/util/node/controller_utils.go RecordNodeEvent
fn event_subject(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
