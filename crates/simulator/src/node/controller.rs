//! Registers nodes, and keeps them described.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Enqueuer, Error, Outcome, Reconciler, Request, RunningSource, Source},
    informer::Informer,
};
use serde_json::json;

use super::{Availability, Node, SimulatedNodes, name, slot::NodeSlots, until};
use crate::writer::{Writer, is};

/// How often a node without changes reports its status.
const HEARTBEAT: Duration = Duration::from_mins(5);
const NODES: &str = "/api/v1/nodes";

/// Registers nodes, and keeps them described.
///
/// A deleted node stays deleted until the simulator is restarted, as with a kubelet that does not register again.
pub(crate) struct NodeController {
    pub(crate) fleet: SimulatedNodes,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) nodes: Informer<Node>,
    /// Which were seen.
    seen: Vec<AtomicBool>,
}

impl NodeController {
    pub(crate) fn new(fleet: SimulatedNodes, writer: Writer, clock: Clock, nodes: Informer<Node>) -> Self {
        NodeController {
            seen: (0..fleet.count).map(|_| AtomicBool::new(false)).collect(),
            fleet,
            writer,
            clock,
            nodes,
        }
    }

    fn seen(&self, number: u32) -> Option<&AtomicBool> {
        self.seen.get(usize::try_from(number).ok()?)
    }

    fn has_seen(&self, number: u32) -> bool {
        self.seen(number).is_some_and(|seen| seen.load(Ordering::Relaxed))
    }

    fn see(&self, number: u32) {
        if let Some(seen) = self.seen(number) {
            seen.store(true, Ordering::Relaxed);
        }
    }

    fn slots(&self) -> NodeSlots {
        NodeSlots {
            period: HEARTBEAT,
            count: self.fleet.count,
        }
    }

    async fn register(&self, number: u32, request: &Request) -> Result<Outcome, Error> {
        let node = self.fleet.made(number, self.clock.now());
        match self.writer.create(NODES, &node).await {
            Ok(version) => request.record_write(&self.nodes, &version),
            // Another writer was faster; its event will arrive.
            Err(error) if is(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        self.see(number);
        Ok(Outcome::Done)
    }

    /// Writes what a node does not say of itself, or has not said for long.
    async fn describe(
        &self,
        number: u32,
        node: &Node,
        now: Timestamp,
        request: &Request,
    ) -> Result<(), Error> {
        let uid = &node.metadata.uid;
        let path = format!("{NODES}/{}", name(number));
        let mut version = None;
        if !self.fleet.is_labelled(number, node) {
            let patch = json!({"metadata": {"uid": uid, "labels": self.fleet.labels(number)}});
            version = Some(self.writer.merge(&path, &patch).await?);
        }
        let is_heard =
            node.status.conditions.heartbeat.is_some_and(|heartbeat| {
                self.slots().last(number, now) <= heartbeat + Duration::from_secs(1)
            });
        if !is_heard || !self.fleet.is_described(number, node) {
            let patch = json!({"metadata": {"uid": uid}, "status": self.fleet.status(number, node, now)});
            version = Some(self.writer.merge_lists(&format!("{path}/status"), &patch).await?);
        }
        if let Some(version) = version {
            request.record_write(&self.nodes, &version);
        }
        Ok(())
    }
}

impl Reconciler for NodeController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(number) = self.fleet.number(request.key.name()) else {
            return Ok(Outcome::Done);
        };
        let Some(node) = self.nodes.store().get(&request.key) else {
            if self.has_seen(number) {
                return Ok(Outcome::Done);
            }
            return self.register(number, &request).await;
        };
        self.see(number);
        let now = self.clock.now();
        let availability = self.fleet.availability(number, &node, now);
        let mut left = availability.left(now);
        if let Availability::Up(_) = availability {
            match self.describe(number, &node, now, &request).await {
                Err(error) if is_not_found(&error) => return Ok(Outcome::Done),
                other => other?,
            }
            let next = until(self.slots().next(number, now), now);
            left = Some(left.map_or(next, |left| left.min(next)));
        }
        Ok(left.map_or(Outcome::Done, Outcome::RequeueAfter))
    }
}

/// Whether the node is not there any more, or another has its name.
fn is_not_found(error: &Error) -> bool {
    let answer = error.source().downcast_ref::<kube::Error>();
    answer.is_some_and(|error| is(error, 404) || is(error, 409))
}

/// The keys of all nodes, whether they are there or not.
pub(crate) struct NodeKeys(pub(crate) u32);

struct NumbersHandle;

impl Source for NodeKeys {
    fn start(&self, keys: Enqueuer) -> Box<dyn RunningSource> {
        for number in 0..self.0 {
            keys.add(Key::new("", &name(number)));
        }
        Box::new(NumbersHandle)
    }
}

impl RunningSource for NumbersHandle {
    fn wait_for_sync(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}
