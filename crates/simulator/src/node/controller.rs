//! Registers nodes and reports their status.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use k3_workloads::Node;
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Enqueuer, Error, Outcome, Reconciler, Request, RunningSource, Source},
    informer::Informer,
    resource::{Resource, ResourceScope},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};
use serde_json::json;

use super::{Availability, SimulatedNodes, conditions::last_heartbeat, name, slot::NodeSlots, until};

/// Interval of status reports without changes, as the kubelet's `nodeStatusReportFrequency`.
const HEARTBEAT: Duration = Duration::from_mins(5);
static NODES: Resource = Resource::new("", "v1", "nodes", "Node", ResourceScope::Cluster);

/// Registers nodes and reports their status.
///
/// A deleted node stays deleted until the simulator is restarted, as with a kubelet that does not register again.
pub(crate) struct NodeController {
    pub(crate) simulated_nodes: SimulatedNodes,
    pub(crate) writer: ApiWriter,
    pub(crate) clock: Clock,
    pub(crate) nodes: Informer<Node>,
    /// Whether each node was registered or found in the API. A missing node that was observed before was deleted.
    observed: Vec<AtomicBool>,
}

impl NodeController {
    pub(crate) fn new(
        simulated_nodes: SimulatedNodes,
        writer: ApiWriter,
        clock: Clock,
        nodes: Informer<Node>,
    ) -> Self {
        NodeController {
            observed: (0..simulated_nodes.count)
                .map(|_| AtomicBool::new(false))
                .collect(),
            simulated_nodes,
            writer,
            clock,
            nodes,
        }
    }

    fn observed(&self, number: u32) -> Option<&AtomicBool> {
        self.observed.get(usize::try_from(number).ok()?)
    }

    fn is_observed(&self, number: u32) -> bool {
        self.observed(number)
            .is_some_and(|observed| observed.load(Ordering::Relaxed))
    }

    fn mark_observed(&self, number: u32) {
        if let Some(observed) = self.observed(number) {
            observed.store(true, Ordering::Relaxed);
        }
    }

    fn slots(&self) -> NodeSlots {
        NodeSlots {
            period: HEARTBEAT,
            count: self.simulated_nodes.count,
        }
    }

    async fn register(&self, number: u32, request: &Request) -> Result<Outcome, Error> {
        let node = self.simulated_nodes.initial_node(number, self.clock.now());
        match self.writer.create::<WrittenObject>(&NODES, "", &node).await {
            Ok(written) => request.record_write(&self.nodes, &written.metadata.resource_version),
            // Another simulator registered the node; its event will arrive.
            Err(error) if has_status_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        self.mark_observed(number);
        Ok(Outcome::Done)
    }

    /// Corrects the labels and the status of a node, and renews its heartbeat when it is due.
    async fn update_node_status(
        &self,
        number: u32,
        node: &Node,
        now: Timestamp,
        request: &Request,
    ) -> Result<(), Error> {
        let uid = &node.metadata.uid;
        let name = name(number);
        let node_ref = ObjectRef::new(&NODES, "", &name);
        let mut written = None;
        if !self.simulated_nodes.has_desired_labels(number, node) {
            let patch = json!({"metadata": {"uid": uid, "labels": self.simulated_nodes.labels(number)}});
            written = Some(self.writer.merge_patch::<WrittenObject>(node_ref, &patch).await?);
        }
        let is_heartbeat_current = last_heartbeat(node)
            .is_some_and(|heartbeat| self.slots().last(number, now) <= heartbeat + Duration::from_secs(1));
        if !is_heartbeat_current || !self.simulated_nodes.is_status_current(number, node) {
            let patch =
                json!({"metadata": {"uid": uid}, "status": self.simulated_nodes.status(number, node, now)});
            written = Some(
                self.writer
                    .strategic_merge_patch(node_ref.subresource("status"), &patch)
                    .await?,
            );
        }
        if let Some(written) = written {
            request.record_write(&self.nodes, &written.metadata.resource_version);
        }
        Ok(())
    }
}

impl Reconciler for NodeController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(number) = self.simulated_nodes.number(request.key.name()) else {
            return Ok(Outcome::Done);
        };
        let Some(node) = self.nodes.store().get(&request.key) else {
            if self.is_observed(number) {
                return Ok(Outcome::Done);
            }
            return self.register(number, &request).await;
        };
        self.mark_observed(number);
        let now = self.clock.now();
        let availability = self.simulated_nodes.availability(number, &node, now);
        let mut remaining = availability.remaining(now);
        if let Availability::Up(_) = availability {
            match self.update_node_status(number, &node, now, &request).await {
                Err(error) if is_not_found(&error) => return Ok(Outcome::Done),
                other => other?,
            }
            let next = until(self.slots().next(number, now), now);
            remaining = Some(remaining.map_or(next, |remaining| remaining.min(next)));
        }
        Ok(remaining.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

/// Whether the node was deleted, or replaced by another node with the same name.
fn is_not_found(error: &Error) -> bool {
    let answer = error.source().downcast_ref::<kube::Error>();
    answer.is_some_and(|error| has_status_code(error, 404) || has_status_code(error, 409))
}

/// Enqueues the keys of all simulated nodes, registered or not.
pub(crate) struct NodeKeys(pub(crate) u32);

struct NodeKeysHandle;

impl Source for NodeKeys {
    fn start(&self, keys: Enqueuer) -> Box<dyn RunningSource> {
        for number in 0..self.0 {
            keys.add(Key::new("", &name(number)));
        }
        Box::new(NodeKeysHandle)
    }
}

impl RunningSource for NodeKeysHandle {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
