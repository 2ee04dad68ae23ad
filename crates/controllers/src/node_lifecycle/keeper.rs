//! Keeps a node's taints, labels and conditions, and the condition of its pods, as they have to be.

use std::sync::Arc;

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
    LEASE_NAMESPACE, labels, pods, silence,
    state::{Lease, Look, Shared, renew_time},
    taints,
};
use crate::{
    news::News,
    objects::{ConditionStatus, Node, Pod},
    resource::{LEASES, NODES},
    writer::{Made, Place, Writer, is},
    written,
};

pub(super) struct Keeper {
    pub(super) writer: Writer,
    pub(super) recorder: EventRecorder,
    pub(super) clock: Clock,
    pub(super) nodes: Informer<Node>,
    pub(super) leases: Informer<Lease>,
    pub(super) pods: Informer<Pod>,
    pub(super) on_node: Index<Pod>,
    pub(super) shared: Arc<Shared>,
}

// --- Keeper ---

impl Reconciler for Keeper {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let name = request.key.name();
        let Some(node) = self.nodes.store().get(&request.key) else {
            self.forget(name);
            return Ok(Outcome::Done);
        };
        let look = self.observe(&node);
        if look.is_silent && self.declare(&node, &request).await? {
            return Ok(Outcome::Done);
        }
        self.mark(&node, &look, &request).await?;
        if node.condition("Ready") == Some(ConditionStatus::Unknown) {
            for pod in self.on_node.get(name) {
                let marked = pods::mark(&self.writer, &self.recorder, &self.clock, &pod).await?;
                if let Some(version) = marked {
                    // Who looks again before that is seen would tell it again.
                    request.record_write(&self.pods, &version);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl Keeper {
    /// Looks at a node.
    pub(super) fn observe(&self, node: &Node) -> Look {
        let name = &*node.metadata.name;
        let lease = renew_time(&self.leases, name);
        let look = self.shared.look(node, lease.as_deref(), Instant::now());
        if look.is_new {
            let message = format_args!("Node {name} event: Registered Node {name} in Controller");
            News::normal("RegisteredNode", message).tell(&self.recorder, &about(name, &node.metadata.uid));
        }
        look
    }

    fn forget(&self, name: &str) {
        let mut state = self.shared.lock();
        state.zones.forget(name);
        if let Some(uid) = state.lives.forget(name) {
            let message = format_args!("Node {name} event: Removing Node {name} from Controller");
            News::normal("RemovingNode", message).tell(&self.recorder, &about(name, &uid));
        }
    }

    /// Writes down that a node is silent, unless it is not or that is known. Gives whether that made a change.
    async fn declare(&self, node: &Node, request: &Request) -> Result<bool, Error> {
        let name = &*node.metadata.name;
        let Some(conditions) = silence::unknown(node, self.clock.now()) else {
            return Ok(false);
        };
        // Perhaps it is the informer that hears nothing.
        let lease = Place::new(&LEASES, LEASE_NAMESPACE, name);
        match self.writer.get::<Lease>(lease).await {
            Ok(lease) => {
                let time = lease.spec.renew_time.as_deref().unwrap_or_default();
                if !time.is_empty() && self.shared.lock().lives.renew(name, time, Instant::now()) {
                    return Ok(false);
                }
            }
            Err(error) if is(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        let place = Place::new(&NODES, "", name).part("status");
        match self.writer.merge::<Made>(place, &patch).await {
            Ok(made) => request.record_write(&self.nodes, &made.metadata.resource_version),
            Err(error) if is(&error, 404) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        if node.is_ready() {
            let message = format_args!("Node {name} status is now: NodeNotReady");
            News::normal("NodeNotReady", message).tell(&self.recorder, &about(name, &node.metadata.uid));
        }
        Ok(true)
    }

    /// Writes the taints and labels that a node has to have.
    async fn mark(&self, node: &Node, look: &Look, request: &Request) -> Result<(), Error> {
        let labels = labels::wanted(node);
        let taints = taints::wanted(node, look.eviction, self.clock.now());
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
            patch["spec"]["taints"] = written::list(&taints);
        }
        let place = Place::new(&NODES, "", &node.metadata.name);
        match self.writer.merge::<Made>(place, &patch).await {
            Err(error) if is(&error, 404) => Ok(()),
            made => {
                request.record_write(&self.nodes, &made?.metadata.resource_version);
                Ok(())
            }
        }
    }
}

/// A node as events name it: without the version, so that all that is told of it is told of the same.
fn about(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
