//! The node lifecycle controller: node conditions become taints, and nodes that stop posting status become unreachable.
//!
//! ```text
//! controller  one node: taints, labels, status Unknown
//! taints      which taints a node should have
//! zones       eviction rate per zone
//! health      when a node was last heard from
//! pods        pods of nodes that are not ready
//! unknown_conditions  conditions of a node that stopped posting status
//! ```

mod controller;
mod health;
mod labels;
mod pods;
mod state;
mod taints;
#[cfg(test)]
mod tests;
mod unknown_conditions;
mod zones;

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use kubecontroller::{
    Key,
    controller::ControllerRunner,
    informer::InformerScope,
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use self::{
    controller::NodeLifecycleController,
    pods::{NewPodReconciler, new_ready_pod_predicate},
    state::SharedState,
    zones::DisruptionModeChange,
};
use crate::{
    context::{ControllerContext, Task},
    resource::{LEASES, NODES},
};

/// nodeMonitorPeriod.
const MONITOR_PERIOD: Duration = Duration::from_secs(5);
/// Nodes processed concurrently.
const WORKERS: usize = 8;
/// Pods processed concurrently.
const POD_WORKERS: usize = 4;

const LEASE_NAMESPACE: &str = "kube-node-lease";

const ZONE_SIZE: MetricDesc = MetricDesc::gauge(
    "node_collector_zone_size",
    "Gauge measuring number of registered Nodes per zones.",
    &["zone"],
);
const ZONE_HEALTH: MetricDesc = MetricDesc::gauge(
    "node_collector_zone_health",
    "Gauge measuring percentage of healthy nodes per zone.",
    &["zone"],
);
const UNHEALTHY: MetricDesc = MetricDesc::gauge(
    "node_collector_unhealthy_nodes_in_zone",
    "Gauge measuring number of not Ready Nodes per zones.",
    &["zone"],
);
const EVICTIONS: MetricDesc = MetricDesc::counter(
    "node_collector_evictions_total",
    "Number of Node evictions that happened since current instance of NodeController started.",
    &["zone"],
);

/// The reconciler and its periodic health check.
// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go Controller, monitorNodeHealth
struct NodeLifecycleRunner {
    metrics: Metrics,
    controller: Arc<NodeLifecycleController>,
    runner: ControllerRunner<Arc<NodeLifecycleController>>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let nodes = context.informer(&NODES);
    let pods = context.pods();
    let scope = InformerScope::default().namespace(LEASE_NAMESPACE);
    let recorder = context.recorder.clone().component("node-controller");
    let controller = Arc::new(NodeLifecycleController {
        writer: context.writer.clone(),
        recorder: recorder.clone(),
        clock: context.clock.clone(),
        leases: context.informers.projected(&LEASES.api_resource(), scope),
        nodes: nodes.clone(),
        on_node: context.pods_by_node(),
        pods: pods.clone(),
        state: Arc::new(SharedState::default()),
    });
    let runner = context
        .controller("node-lifecycle-controller")
        .for_(&nodes)
        .workers(WORKERS)
        .reconciler(Arc::clone(&controller));
    let arrivals = context
        .controller("node-lifecycle-controller-pods")
        .for_where(&pods, new_ready_pod_predicate())
        .workers(POD_WORKERS)
        .reconciler(NewPodReconciler {
            writer: context.writer.clone(),
            recorder,
            clock: context.clock.clone(),
            nodes: nodes.store().clone(),
            pods: pods.clone(),
        });
    let lifecycle = NodeLifecycleRunner {
        metrics: context.metrics.clone(),
        controller,
        runner,
    };
    vec![Box::new(lifecycle), Box::new(arrivals)]
}

// --- NodeLifecycleRunner ---

impl Runnable for NodeLifecycleRunner {
    fn name(&self) -> &'static str {
        "node-lifecycle-controller"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            // Health data from before this run is stale: nothing was observed since.
            *self.controller.state.lock() = state::NodeLifecycleState::default();
            let watch = async {
                stop.unless_stopped(self.watch()).await;
                Ok(())
            };
            tokio::try_join!(self.runner.run(stop.clone()), watch)?;
            Ok(())
        }
        .boxed()
    }
}

impl NodeLifecycleRunner {
    /// Enqueues nodes that may be evicted now, and nodes that stopped posting status.
    async fn watch(&self) {
        let controller = &*self.controller;
        let state = Arc::clone(&controller.state);
        let _renewals = controller.leases.add_event_handler(move |delta| {
            if let Some(lease) = delta.new()
                && let Some(time) = &lease.spec.renew_time
            {
                let name = &*lease.metadata.name;
                state.lock().health.renew(name, time, Instant::now());
            }
        });
        controller.nodes.wait_for_sync().await;
        controller.leases.wait_for_sync().await;
        for node in controller.nodes.store().all() {
            controller.observe(&node);
        }
        let mut ticks = interval(MONITOR_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = controller.state.lock().zones.next_allowed_at();
            let turn = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = ticks.tick() => self.observe_node(),
                () = turn => {}
                () = controller.state.eviction_waiting.notified() => {}
            }
            self.enqueue(self.take_allowed());
        }
    }

    /// Nodes that may be evicted now.
    fn take_allowed(&self) -> Vec<Box<str>> {
        let mut state = self.controller.state.lock();
        let released = state.zones.take_allowed(Instant::now());
        for node in &released {
            let zone = state.zones.zone(node).unwrap_or_default();
            self.metrics.increment(&EVICTIONS, &[zone], 1);
        }
        released
    }

    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go handleDisruption
    fn observe_node(&self) {
        let now = Instant::now();
        let mut state = self.controller.state.lock();
        let silent = state.health.take_expired(now);
        let change = state.zones.evaluate(now);
        if change == DisruptionModeChange::Exited {
            state.health.mark_all_heard(now);
        }
        for (zone, ready, unready) in state.zones.counts() {
            let [ready, all, unready] = [ready, ready + unready, unready].map(number);
            self.metrics.set_gauge(&ZONE_SIZE, &[zone], all);
            self.metrics.set_gauge(&UNHEALTHY, &[zone], unready);
            let health = if all > 0.0 { 100.0 * ready / all } else { 100.0 };
            self.metrics.set_gauge(&ZONE_HEALTH, &[zone], health);
        }
        drop(state);
        self.enqueue(silent);
        match change {
            DisruptionModeChange::None => {}
            DisruptionModeChange::Entered => {
                tracing::info!("entered master disruption mode: no node is ready; no pod is evicted");
            }
            DisruptionModeChange::Exited => {
                tracing::info!("left master disruption mode: a node is ready");
            }
        }
        if change != DisruptionModeChange::None {
            let queue = self.runner.handle().queue();
            for key in self.controller.nodes.store().keys() {
                queue.add(key);
            }
        }
    }

    fn enqueue(&self, nodes: Vec<Box<str>>) {
        let queue = self.runner.handle().queue();
        for node in nodes {
            queue.add(Key::new("", &node));
        }
    }
}

/// A count as a float, which is exact for these sizes.
fn number(nodes: usize) -> f64 {
    u32::try_from(nodes).map_or(f64::INFINITY, f64::from)
}
