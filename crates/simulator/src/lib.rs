//! Nodes and pods without containers: thousands of nodes that behave as kubelets do, in one process.
//!
//! A [`Simulator`] registers nodes, renews their leases, reports their status, and lets the pods that are bound to them run,
//! end and go. [`Rules`] say what they do; without any, nodes are healthy and pods run.
//!
//! Promises:
//! - What was done so far is in the API, and nowhere else: a restarted simulator continues where the last one ended, and
//!   two at once reach the same state as one.
//! - There is no task per node or pod. What is due is in queues, and a fixed number of requests is under way at once; those of
//!   nodes and leases do not wait for those of pods.
//! - Of a pod only what its life needs is kept.
//! - Jitter comes from a seed: the same pod has the same life again.
//!
//! What kubelets do beyond that is not simulated: probes and hooks, events, images, volumes, resizes, admission by the node.

mod condition;
mod meta;
mod node;
mod pod;
mod rules;
#[cfg(test)]
mod tests;
mod writer;

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, try_join3};
use k8s_openapi::api::core::v1 as core;
use kube::{Client, core::ApiResource};
use kubecontroller::{
    Clock,
    controller::{Controller, Predicate},
    informer::{Delta, Informer, InformerOptions, InformerScope, SharedInformerFactory},
    manager::{BoxError, Runnable, Stop},
    metrics::Metrics,
    object::Object,
    workqueue::ExponentialBackoff,
};

pub use self::rules::{BadRules, Rules};
use self::{
    node::{LeaseController, Node, NodeController, NodeKeys, SimulatedNodes},
    pod::{Pod, PodController, by_node},
    writer::Writer,
};

/// The name under which it runs.
pub const NAME: &str = "simulator";

/// How many requests for pods, for nodes and for leases may be under way.
const FOR_PODS: usize = 64;
const FOR_NODES: usize = 16;
const FOR_LEASES: usize = 16;
/// How long what failed waits.
const BACKOFF: ExponentialBackoff = ExponentialBackoff {
    base: Duration::from_millis(100),
    max: Duration::from_secs(7),
};

/// Simulates nodes and the pods on them. Only one of several processes needs to.
pub struct Simulator {
    fleet: SimulatedNodes,
    writer: Writer,
    informers: SharedInformerFactory,
    clock: Clock,
    metrics: Metrics,
    /// Made once, so that each run asks for the same informer.
    pods: InformerOptions<Pod>,
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
        let rules = Arc::new(rules);
        let chosen = Arc::clone(&rules);
        Simulator {
            pods: informers
                .default_options()
                .transform(move |pod: &mut Pod| pod.settle(&chosen)),
            fleet: SimulatedNodes { count, rules },
            writer: Writer::new(client),
            informers,
            clock,
            metrics: Metrics::default(),
        }
    }

    /// Registers metrics of its queues.
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
        let kind = ApiResource::erase::<core::Node>(&());
        let nodes: Informer<Node> = self.informers.projected(&kind, InformerScope::default());
        let kind = ApiResource::erase::<core::Pod>(&());
        let bound = InformerScope::default().fields("spec.nodeName!=");
        let pods = self.informers.projected_with(&kind, bound, self.pods.clone())?;
        self.informers.start();

        let fleet = &self.fleet;
        let writer = &self.writer;
        let clock = &self.clock;
        let controller = NodeController::new(fleet.clone(), writer.clone(), clock.clone(), nodes.clone());
        let registrar = self
            .controller("simulator_nodes", FOR_NODES)
            .for_where(&nodes, ours(fleet.count))
            .source(NodeKeys(fleet.count))
            .reconciler(controller);
        let store = nodes.store().clone();
        let controller = LeaseController::new(fleet.clone(), writer.clone(), clock.clone(), store.clone());
        let leases = self
            .controller("simulator_leases", FOR_LEASES)
            .for_where(&nodes, ours(fleet.count).and(is_added_or_deleted()))
            .reconciler(controller);
        let controller = PodController::new(fleet.clone(), writer.clone(), clock.clone(), &pods, store);
        let of_node = by_node(pods.store());
        let lives = self
            .controller("simulator_pods", FOR_PODS)
            .for_(&pods)
            .watches_where(
                &nodes,
                ours(fleet.count).and(is_added_or_deleted()),
                move |delta| of_node.keys(delta.object().name()),
            )
            .reconciler(controller);
        try_join3(
            registrar.run(stop.clone()),
            leases.run(stop.clone()),
            lives.run(stop),
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

/// Whether a node is one of these.
fn ours(count: u32) -> Predicate<Node> {
    Predicate::new(move |delta: &Delta<Node>| {
        let number = node::number(delta.object().name());
        number.is_some_and(|number| number < count)
    })
}

/// Whether a node was added, replaced or deleted.
fn is_added_or_deleted() -> Predicate<Node> {
    Predicate::new(|delta: &Delta<Node>| match (delta.old(), delta.new()) {
        (Some(old), Some(new)) => old.uid() != new.uid(),
        _ => true,
    })
}
