//! Renews the leases by which it is known that nodes live.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    store::Store,
};
use serde_json::json;

use super::{Availability, Node, SimulatedNodes, slot::NodeSlots, until};
use crate::writer::{Writer, is};

const PERIOD: Duration = Duration::from_secs(10);
const DURATION: u32 = 40;
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Renews the leases by which it is known that nodes live.
pub(crate) struct LeaseController {
    fleet: SimulatedNodes,
    writer: Writer,
    clock: Clock,
    nodes: Store<Node>,
    /// The nodes whose leases are there.
    known: Mutex<HashSet<u32>>,
}

impl LeaseController {
    pub(crate) fn new(fleet: SimulatedNodes, writer: Writer, clock: Clock, nodes: Store<Node>) -> Self {
        LeaseController {
            fleet,
            writer,
            clock,
            nodes,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews a lease, or makes it. One that is known is renewed by one request, and so is one made that is not.
    async fn renew(&self, number: u32, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
        if !self.known().contains(&number) {
            match self.make(node, now).await {
                Err(error) if is(&error, 409) => {}
                other => {
                    other?;
                    self.known().insert(number);
                    return Ok(());
                }
            }
        }
        let path = format!("{LEASES}/{}", node.metadata.name);
        let patch = json!({"spec": {"renewTime": MicroTime(now)}});
        match self.writer.merge(&path, &patch).await {
            Err(error) if is(&error, 404) => {
                self.known().remove(&number);
                Err(error)
            }
            other => {
                other?;
                self.known().insert(number);
                Ok(())
            }
        }
    }

    async fn make(&self, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
        let name = &node.metadata.name;
        let uid = &node.metadata.uid;
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": DURATION, "renewTime": MicroTime(now)},
        });
        self.writer.create(LEASES, &lease).await.map(drop)
    }
}

impl Reconciler for LeaseController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(number) = self.fleet.number(request.key.name()) else {
            return Ok(Outcome::Done);
        };
        let Some(node) = self.nodes.get(&request.key) else {
            // The lease goes with its node.
            self.known().remove(&number);
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let availability = self.fleet.availability(number, &node, now);
        if let Availability::Down(_) = availability {
            return Ok(availability
                .left(now)
                .map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        self.renew(number, &node, now).await?;
        let slots = NodeSlots {
            period: PERIOD,
            count: self.fleet.count,
        };
        Ok(Outcome::RequeueAfter(until(slots.next(number, now), now)))
    }
}
