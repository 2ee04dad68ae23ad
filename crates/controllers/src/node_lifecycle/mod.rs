//! Watches over nodes: what they say of themselves becomes taints, and who says nothing for too long is declared unreachable.
//!
//! ```text
//! keeper    one node: its taints, its labels, its silence
//! taints    which taints it has to have
//! zones     how fast nodes may lose their pods
//! health    when a node was last heard of
//! silence   what is known of a node that is not heard of
//! pods      the pods of nodes that are not ready
//! ```

mod health;
mod keeper;
mod labels;
mod pods;
mod silence;
mod state;
mod taints;
#[cfg(test)]
mod tests;
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
    keeper::Keeper,
    pods::{Arrivals, arrives},
    state::Shared,
    zones::Change,
};
use crate::{
    context::{Context, Task},
    resource::{LEASES, NODES},
};

/// How often it is looked for silent nodes and at the state of zones.
const EVERY: Duration = Duration::from_secs(5);
/// How many nodes are seen to at once.
const WORKERS: usize = 8;
/// How many pods are.
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

/// The controller of nodes, and the clock that wakes it.
struct Lifecycle {
    metrics: Metrics,
    keeper: Arc<Keeper>,
    runner: ControllerRunner<Arc<Keeper>>,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let (nodes, pods) = (context.informer(&NODES), context.pods());
    let scope = InformerScope::default().namespace(LEASE_NAMESPACE);
    let recorder = context.recorder.clone().component("node-controller");
    let keeper = Arc::new(Keeper {
        writer: context.writer.clone(),
        recorder: recorder.clone(),
        clock: context.clock.clone(),
        leases: context.informers.projected(&LEASES.api_resource(), scope),
        nodes: nodes.clone(),
        on_node: context.pods_by_node(),
        pods: pods.clone(),
        shared: Arc::new(Shared::default()),
    });
    let runner = context
        .controller("node_lifecycle_controller")
        .for_(&nodes)
        .workers(WORKERS)
        .reconciler(Arc::clone(&keeper));
    let arrivals = context
        .controller("node_lifecycle_controller_pods")
        .for_where(&pods, arrives())
        .workers(POD_WORKERS)
        .reconciler(Arrivals {
            writer: context.writer.clone(),
            recorder,
            clock: context.clock.clone(),
            nodes: nodes.store().clone(),
            pods: pods.clone(),
        });
    let lifecycle = Lifecycle {
        metrics: context.metrics.clone(),
        keeper,
        runner,
    };
    vec![Box::new(lifecycle), Box::new(arrivals)]
}

// --- Lifecycle ---

impl Runnable for Lifecycle {
    fn name(&self) -> &'static str {
        "node-lifecycle-controller"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            // What was heard before this run is old: nobody listened since.
            *self.keeper.shared.lock() = state::State::default();
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

impl Lifecycle {
    /// Wakes nodes whose turn it is, and looks for those that fell silent.
    async fn watch(&self) {
        let keeper = &*self.keeper;
        let shared = Arc::clone(&keeper.shared);
        let _renewals = keeper.leases.add_event_handler(move |delta| {
            if let Some(lease) = delta.new()
                && let Some(time) = &lease.spec.renew_time
            {
                let name = &*lease.metadata.name;
                shared.lock().lives.renew(name, time, Instant::now());
            }
        });
        keeper.nodes.wait_for_sync().await;
        keeper.leases.wait_for_sync().await;
        for node in keeper.nodes.store().all() {
            keeper.observe(&node);
        }
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = keeper.shared.lock().zones.next_release();
            let turn = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                _ = ticks.tick() => self.look(),
                () = turn => {}
                () = keeper.shared.wake.notified() => {}
            }
            self.wake(self.release());
        }
    }

    /// The nodes whose turn it is.
    fn release(&self) -> Vec<Box<str>> {
        let mut state = self.keeper.shared.lock();
        let released = state.zones.release(Instant::now());
        for node in &released {
            let zone = state.zones.zone(node).unwrap_or_default();
            self.metrics.increment(&EVICTIONS, &[zone], 1);
        }
        released
    }

    fn look(&self) {
        let (now, mut state) = (Instant::now(), self.keeper.shared.lock());
        let silent = state.lives.fell_silent(now);
        let change = state.zones.evaluate(now);
        if change == Change::Resumed {
            state.lives.hear_all(now);
        }
        for (zone, ready, down) in state.zones.counts() {
            let [ready, all, down] = [ready, ready + down, down].map(number);
            self.metrics.set_gauge(&ZONE_SIZE, &[zone], all);
            self.metrics.set_gauge(&UNHEALTHY, &[zone], down);
            let health = if all > 0.0 { 100.0 * ready / all } else { 100.0 };
            self.metrics.set_gauge(&ZONE_HEALTH, &[zone], health);
        }
        drop(state);
        self.wake(silent);
        if change != Change::None {
            tracing::info!(?change, "all nodes are down, or no longer so");
            let queue = self.runner.handle().queue();
            for key in self.keeper.nodes.store().keys() {
                queue.add(key);
            }
        }
    }

    fn wake(&self, nodes: Vec<Box<str>>) {
        let queue = self.runner.handle().queue();
        for node in nodes {
            queue.add(Key::new("", &node));
        }
    }
}

/// A number of nodes; there are never more than a float can count.
fn number(nodes: usize) -> f64 {
    u32::try_from(nodes).map_or(f64::INFINITY, f64::from)
}
