//! Renews the leases of nodes in the namespace `kube-node-lease`.

use std::{collections::HashSet, time::Duration};

use k3_workloads::Node;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use kubecontroller::{
    Clock,
    controller::{Error, Outcome, Reconciler, Request},
    resource::{Resource, ResourceScope},
    store::Store,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code, is_not_found},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use super::{Availability, SimulatedNodes, slot::NodeSlots, until};

const PERIOD: Duration = Duration::from_secs(10);
const DURATION: u32 = 40;
static LEASES: Resource = Resource::new(
    "coordination.k8s.io",
    "v1",
    "leases",
    "Lease",
    ResourceScope::Namespaced,
);
const NAMESPACE: &str = "kube-node-lease";

/// Renews the leases of nodes.
pub(crate) struct LeaseController {
    simulated_nodes: SimulatedNodes,
    writer: ApiWriter,
    clock: Clock,
    nodes: Store<Node>,
    /// The nodes whose leases exist.
    created: Mutex<HashSet<u32>>,
}

impl LeaseController {
    pub(crate) fn new(
        simulated_nodes: SimulatedNodes,
        writer: ApiWriter,
        clock: Clock,
        nodes: Store<Node>,
    ) -> Self {
        LeaseController {
            simulated_nodes,
            writer,
            clock,
            nodes,
            created: Mutex::default(),
        }
    }

    fn created(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.created.lock()
    }

    /// Renews or creates a lease. `created` saves the failing request to create a lease that exists.
    async fn renew(&self, number: u32, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
        if !self.created().contains(&number) {
            match self.create_lease(node, now).await {
                Err(error) if has_status_code(&error, 409) => {}
                other => {
                    other?;
                    self.created().insert(number);
                    return Ok(());
                }
            }
        }
        let lease_ref = ObjectRef::new(&LEASES, NAMESPACE, &node.metadata.name);
        let patch = json!({"spec": {"renewTime": MicroTime(now)}});
        match self.writer.merge_patch::<WrittenObject>(lease_ref, &patch).await {
            Err(error) if is_not_found(&error) => {
                self.created().remove(&number);
                Err(error)
            }
            other => {
                other?;
                self.created().insert(number);
                Ok(())
            }
        }
    }

    async fn create_lease(&self, node: &Node, now: Timestamp) -> Result<(), kube::Error> {
        let name = &node.metadata.name;
        let uid = &node.metadata.uid;
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": DURATION, "renewTime": MicroTime(now)},
        });
        let created: WrittenObject = self.writer.create(&LEASES, NAMESPACE, &lease).await?;
        drop(created);
        Ok(())
    }
}

impl Reconciler for LeaseController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let Some(number) = self.simulated_nodes.number(request.key.name()) else {
            return Ok(Outcome::Done);
        };
        let Some(node) = self.nodes.get(&request.key) else {
            // The garbage collector deletes the lease with its owner, the node.
            self.created().remove(&number);
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let availability = self.simulated_nodes.availability(number, &node, now);
        if let Availability::Down(_) = availability {
            return Ok(availability
                .remaining(now)
                .map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        self.renew(number, &node, now).await?;
        let slots = NodeSlots {
            period: PERIOD,
            count: self.simulated_nodes.count,
        };
        Ok(Outcome::RequeueAfter(until(slots.next(number, now), now)))
    }
}
