//! Moves pods through their lifecycle as their rules describe.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kubecontroller::{
    Clock, Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Informer,
    store::{Index, Store},
};
use serde_json::json;

use super::{
    addresses::Addresses,
    lifecycle::{LifecycleStep, PodTime, plan},
    object::Pod,
    status::{PodAddresses, PodStage},
};
use crate::{
    node::{Availability, Node, SimulatedNodes, address_of, name, until},
    writer::{Writer, is},
};

/// When it is looked again for what could not be done.
const LATER: Duration = Duration::from_secs(10);
/// When it is looked again at a pod that another writer changed at the same time; its event arrives sooner.
const SOON: Duration = Duration::from_secs(1);

/// Sees to it that pods live as their rules say.
pub(crate) struct PodController {
    fleet: SimulatedNodes,
    writer: Writer,
    clock: Clock,
    pods: Informer<Pod>,
    by_node: Index<Pod>,
    nodes: Store<Node>,
    addresses: Addresses,
    /// When the status of pods was written that have another step.
    wrote: Mutex<HashMap<Key, Timestamp>>,
}

impl PodController {
    pub(crate) fn new(
        fleet: SimulatedNodes,
        writer: Writer,
        clock: Clock,
        pods: &Informer<Pod>,
        nodes: Store<Node>,
    ) -> Self {
        PodController {
            by_node: by_node(pods.store()),
            pods: pods.clone(),
            fleet,
            writer,
            clock,
            nodes,
            addresses: Addresses::default(),
            wrote: Mutex::default(),
        }
    }

    fn wrote(&self) -> MutexGuard<'_, HashMap<Key, Timestamp>> {
        self.wrote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(
        &self,
        number: u32,
        node: &Node,
        pod: &Pod,
        scene: PodStage,
        request: &Request,
    ) -> Result<Outcome, Error> {
        let now = self.clock.now();
        let is_new = pod.status.start_time.is_none();
        let host = address_of(number);
        let own = match scene {
            PodStage::Running { .. } if pod.status.ip.is_some() => Vec::new(),
            PodStage::Running { .. } if pod.spec.host_network => vec![host],
            PodStage::Running { .. } => {
                let neighbours = self.by_node.get(&name(number));
                match self.addresses.give(number, node, pod, &neighbours) {
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
        let path = format!("{}/status", path(&request.key));
        let patch = scene.patch(pod, &addresses, now);
        match self.writer.merge_lists(&path, &patch).await {
            Ok(version) => {
                self.wrote().insert(request.key.clone(), now);
                request.record_write(&self.pods, &version);
                Ok(Outcome::Done)
            }
            Err(error) if is(&error, 404) => Ok(Outcome::Done),
            Err(error) if is(&error, 409) => Ok(Outcome::RequeueAfter(SOON)),
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
        match self.writer.delete(&path(&request.key), &options).await {
            Err(error) if !is(&error, 404) && !is(&error, 409) => Err(error.into()),
            _ => Ok(Outcome::Done),
        }
    }
}

impl Reconciler for PodController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let key = &request.key;
        let Some(pod) = self.pods.store().get(key) else {
            self.wrote().remove(key);
            return Ok(Outcome::Done);
        };
        let number = pod.spec.node.filter(|number| *number < self.fleet.count);
        let Some(number) = number else {
            return Ok(Outcome::Done);
        };
        // A node that is not there does nothing for its pods.
        let Some(node) = self.nodes.get(&Key::new("", &name(number))) else {
            return Ok(Outcome::Done);
        };
        let now = self.clock.now();
        let availability = self.fleet.availability(number, &node, now);
        if let Availability::Down(_) = availability {
            return Ok(availability
                .left(now)
                .map_or(Outcome::Done, Outcome::RequeueAfter));
        }
        let wrote = self.wrote().get(key).copied();
        match plan(&pod, &self.fleet.rules, PodTime { now, wrote }) {
            LifecycleStep::Rest => {
                self.wrote().remove(key);
                Ok(Outcome::Done)
            }
            LifecycleStep::Wait(then) => Ok(Outcome::RequeueAfter(until(then, now))),
            LifecycleStep::Write(scene) => self.write(number, &node, &pod, scene, &request).await,
            LifecycleStep::Remove => self.remove(&pod, &request).await,
        }
    }
}

/// The pods of each simulated node.
pub(crate) fn by_node(pods: &Store<Pod>) -> Index<Pod> {
    pods.shared_index("simulated node", |pod| {
        pod.spec.node.map(name).into_iter().collect()
    })
}

fn path(key: &Key) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", key.namespace(), key.name())
}
