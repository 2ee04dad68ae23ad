//! Simulated nodes and pods without containers: thousands of hollow kubelets in one process.
//!
//! A [`Simulator`] registers nodes, renews their leases, reports their status, and moves the pods that are bound to them through
//! their lifecycle. [`Rules`] describe the behaviour; without rules, nodes are healthy and pods run.
//!
//! Guarantees:
//! - All state is in the API: a restarted simulator continues where the last one stopped, and two concurrent simulators reach
//!   the same state as one.
//! - There is no task per node or pod. Due work is in work queues, and the number of concurrent requests is fixed; requests for
//!   nodes and leases do not wait for requests for pods.
//! - Pods and nodes are read with the informers of [`k3_workloads`], which controllers and scheduler in the process share.
//! - Jitter is derived from a seed: the same pod gets the same delays in every process.
//!
//! Not simulated: probes and hooks, events, images, volumes, resizes, admission by the node.

mod condition;
mod node;
mod pod;
mod rules;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, try_join3};
use k3_workloads::{Node, Pod, node_informer, pod_informer, pods_by_node};
use kube::Client;
use kubecontroller::{
    Backoff, Clock,
    controller::{Controller, Predicate},
    informer::{Delta, SharedInformerFactory},
    manager::{BoxError, Runnable, Stop},
    metrics::Metrics,
    object::Object,
    writer::ApiWriter,
};

pub use self::rules::{LoadRulesError, ParseRulesError, Rules};
use self::{
    node::{LeaseController, NodeController, NodeKeys, SimulatedNodes},
    pod::PodController,
};

/// The name of the component.
pub const NAME: &str = "simulator";

/// Maximum numbers of concurrent reconciliations per controller.
const POD_WORKERS: usize = 64;
const NODE_WORKERS: usize = 16;
const LEASE_WORKERS: usize = 16;
/// Back-off of failed reconciliations.
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(7));

/// Simulates nodes and the pods on them. One process of a cluster is enough.
pub struct Simulator {
    simulated_nodes: SimulatedNodes,
    writer: ApiWriter,
    informers: SharedInformerFactory,
    clock: Clock,
    metrics: Metrics,
}

// --- Simulator ---

impl Simulator {
    /// Simulates the nodes `simulated-0` to `simulated-N`, N being one less than `count`. The client needs rights to create and
    /// patch nodes and leases, to patch the status of nodes and pods, and to delete pods; the informers to read nodes and pods.
    pub fn new(
        client: Client,
        informers: SharedInformerFactory,
        clock: Clock,
        count: u32,
        rules: Rules,
    ) -> Self {
        Simulator {
            simulated_nodes: SimulatedNodes {
                count,
                rules: Arc::new(rules),
            },
            writer: ApiWriter::new(client),
            informers,
            clock,
            metrics: Metrics::default(),
        }
    }

    /// Registers the metrics of the work queues.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    fn controller(&self, name: &str, workers: usize) -> Controller {
        Controller::new(name)
            .metrics(&self.metrics)
            .clock(&self.clock)
            .workers(workers)
            .queue(|mut options| {
                options.backoff = BACKOFF;
                options.bucket = None;
                options
            })
    }

    async fn simulate(&self, stop: Stop) -> Result<(), BoxError> {
        let nodes = node_informer(&self.informers);
        let pods = pod_informer(&self.informers);
        self.informers.start();

        let simulated_nodes = &self.simulated_nodes;
        let writer = &self.writer;
        let clock = &self.clock;
        let controller = NodeController::new(
            simulated_nodes.clone(),
            writer.clone(),
            clock.clone(),
            nodes.clone(),
        );
        let node_controller = self
            .controller("simulator_nodes", NODE_WORKERS)
            .for_where(&nodes, is_simulated_node(simulated_nodes.count))
            .source(NodeKeys(simulated_nodes.count))
            .reconciler(controller);
        let store = nodes.store().clone();
        let controller = LeaseController::new(
            simulated_nodes.clone(),
            writer.clone(),
            clock.clone(),
            store.clone(),
        );
        let lease_controller = self
            .controller("simulator_leases", LEASE_WORKERS)
            .for_where(
                &nodes,
                is_simulated_node(simulated_nodes.count).and(is_added_or_deleted()),
            )
            .reconciler(controller);
        let controller = PodController::new(
            simulated_nodes.clone(),
            writer.clone(),
            clock.clone(),
            &pods,
            store,
        );
        let pods_of_node = pods_by_node(pods.store());
        let pod_controller = self
            .controller("simulator_pods", POD_WORKERS)
            .for_where(&pods, is_on_simulated_node(simulated_nodes.count))
            .watches_where(
                &nodes,
                is_simulated_node(simulated_nodes.count).and(is_added_or_deleted()),
                move |delta| pods_of_node.keys(delta.object().name()),
            )
            .reconciler(controller);
        try_join3(
            node_controller.run(stop.clone()),
            lease_controller.run(stop.clone()),
            pod_controller.run(stop),
        )
        .await?;
        Ok(())
    }
}

impl Runnable for Simulator {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(self.simulate(stop))
    }
}

/// Selects the simulated nodes.
fn is_simulated_node(count: u32) -> Predicate<Node> {
    Predicate::new(move |delta: &Delta<Node>| {
        let number = node::number(delta.object().name());
        number.is_some_and(|number| number < count)
    })
}

/// Selects the pods on simulated nodes.
fn is_on_simulated_node(count: u32) -> Predicate<Pod> {
    Predicate::new(move |delta: &Delta<Pod>| {
        let number = node::number(&delta.object().spec.node_name);
        number.is_some_and(|number| number < count)
    })
}

/// Selects nodes that were added, replaced or deleted.
fn is_added_or_deleted() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.uid() != new.uid(),
        _ => true,
    })
}
