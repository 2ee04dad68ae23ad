//! Moves pods through their lifecycle as their rules describe.

use std::{collections::HashMap, time::Duration};

use k3_workloads::{Node, Pod, pods_by_node};
use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Informer,
    resource::{Resource, ResourceScope},
    store::{Index, Store},
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code, is_not_found},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use super::{
    addresses::PodAddressAllocator,
    lifecycle::{LifecycleStep, PodTime, next_step},
    object::SimulatedPod,
    status::{PodAddresses, PodStage},
};
use crate::node::{Availability, SimulatedNodes, address_of, name, until};

static PODS: Resource = Resource::new("", "v1", "pods", "Pod", ResourceScope::Namespaced);
/// Delay before the next attempt when a node has no free address.
const LATER: Duration = Duration::from_secs(10);
/// Delay after a conflict. The event of the other writer usually arrives earlier.
const SOON: Duration = Duration::from_secs(1);

/// Moves pods through their lifecycle as their rules describe.
pub(crate) struct PodController {
    simulated_nodes: SimulatedNodes,
    writer: ApiWriter,
    clock: Clock,
    pods: Informer<Pod>,
    pods_by_node: Index<Pod>,
    nodes: Store<Node>,
    addresses: PodAddressAllocator,
    /// When the status of each pod with a pending step was written.
    status_written_at: Mutex<HashMap<Key, Timestamp>>,
}

impl PodController {
    pub(crate) fn new(
        simulated_nodes: SimulatedNodes,
        writer: ApiWriter,
        clock: Clock,
        pods: &Informer<Pod>,
        nodes: Store<Node>,
    ) -> Self {
        PodController {
            pods_by_node: pods_by_node(pods.store()),
            pods: pods.clone(),
            simulated_nodes,
            writer,
            clock,
            nodes,
            addresses: PodAddressAllocator::default(),
            status_written_at: Mutex::default(),
        }
    }

    fn status_written_at(&self) -> MutexGuard<'_, HashMap<Key, Timestamp>> {
        self.status_written_at.lock()
    }

    async fn write(
        &self,
        number: u32,
        node: &Node,
        pod: &SimulatedPod,
        stage: PodStage,
        request: &Request,
    ) -> Result<Outcome, Error> {
        let now = self.clock.now();
        let is_new = pod.status.start_time.is_none();
        let host = address_of(number);
        let own = match stage {
            PodStage::Running { .. } if !pod.status.ip.is_empty() => Vec::new(),
            PodStage::Running { .. } if pod.spec.template.host_network => vec![host],
            PodStage::Running { .. } => {
                let neighbours = self.pods_by_node.get(&name(number));
                match self.addresses.allocate(number, node, pod, &neighbours) {
                    Some(own) => own,
                    None => return Ok(Outcome::RequeueAfter(LATER)),
                }
            }
            _ => Vec::new(),
        };
        let addresses = PodAddresses {
            host: is_new.then_some(host),
            own,
        };
        let pod_ref = pod_ref(&request.key).subresource("status");
        let patch = stage.patch(pod, &addresses, now);
        match self
            .writer
            .strategic_merge_patch::<WrittenObject>(pod_ref, &patch)
            .await
        {
            Ok(written) => {
                self.status_written_at().insert(request.key.clone(), now);
                request.record_write(&self.pods, &written.metadata.resource_version);
                Ok(Outcome::Done)
            }
            Err(error) if is_not_found(&error) => Ok(Outcome::Done),
            Err(error) if has_status_code(&error, 409) => Ok(Outcome::RequeueAfter(SOON)),
            Err(error) => Err(error.into()),
        }
    }

    async fn remove(&self, pod: &Pod, request: &Request) -> Result<Outcome, Error> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod.metadata.uid},
        });
        match self.writer.delete(pod_ref(&request.key), &options).await {
            Err(error) if !has_status_code(&error, 409) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

impl Reconciler for PodController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(pod) = self.pods.store().get(key) else {
            self.status_written_at().remove(key);
            return Ok(Outcome::Done);
        };
        let Some(number) = self.simulated_nodes.number(&pod.spec.node_name) else {
            return Ok(Outcome::Done);
        };
        // A missing node cannot update its pods.
        let Some(node) = self.nodes.get(&Key::new("", &name(number))) else {
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let availability = self.simulated_nodes.availability(number, &node, now);
        if let Availability::Down(_) = availability {
            return Ok(availability
                .remaining(now)
                .map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        let status_written_at = self.status_written_at().get(key).copied();
        let pod = SimulatedPod::new(pod, &self.simulated_nodes.rules);
        match next_step(
            &pod,
            &self.simulated_nodes.rules,
            PodTime {
                now,
                status_written_at,
            },
        ) {
            LifecycleStep::Idle => {
                self.status_written_at().remove(key);
                Ok(Outcome::Done)
            }
            LifecycleStep::Wait(then) => Ok(Outcome::RequeueAfter(until(then, now))),
            LifecycleStep::Write(stage) => self.write(number, &node, &pod, stage, &request).await,
            LifecycleStep::Delete => self.remove(&pod, &request).await,
        }
    }
}

fn pod_ref(key: &Key) -> ObjectRef<'_> {
    ObjectRef::new(&PODS, key.namespace(), key.name())
}
