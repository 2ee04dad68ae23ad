//! Ends pods that nobody else will end: too many that have ended, those without a node, those whose node is gone.

mod choice;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use kubecontroller::{
    Clock, Key,
    informer::Informer,
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
    store::Index,
};
use serde_json::{Value, json};
use tokio::time::{self, Instant};

use self::choice::Why;
use crate::{
    context::{Context, Task},
    objects::{Node, Pod},
    resource::{NODES, PODS},
    writer::{Place, Writer, is},
};

/// How often pods are looked at.
const EVERY: Duration = Duration::from_secs(20);
/// For how long a node must be missing before its pods go.
const QUARANTINE: Duration = Duration::from_secs(40);
/// How many pods that have ended are kept.
const MOST_ENDED: usize = 12_500;
/// How many pods are deleted at once.
const AT_ONCE: usize = 20;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const ENDED: &str = "ended";
const GOING: &str = "going";

const ENDED_PODS: MetricDesc = MetricDesc::counter(
    "pod_gc_collector_force_delete_pods_total",
    "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    &["namespace", "reason"],
);
const FAILURES: MetricDesc = MetricDesc::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    &["namespace", "reason"],
);

struct PodGarbage {
    writer: Writer,
    clock: Clock,
    metrics: Metrics,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    /// Pods that have ended, and pods that are going.
    by_state: Index<Pod>,
    by_node: Index<Pod>,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let pods = context.pods();
    let by_state = pods.store().index(|pod| {
        let states = [(pod.has_ended(), ENDED), (pod.metadata.is_going(), GOING)];
        let states = states.iter().filter(|(is_so, _)| *is_so);
        states.map(|(_, state)| (*state).to_owned()).collect()
    });
    vec![Box::new(PodGarbage {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
        nodes: context.informer(&NODES),
        pods,
        by_state,
        by_node: context.pods_by_node(),
    })]
}

// --- PodGarbage ---

impl Runnable for PodGarbage {
    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            let work = async {
                self.pods.wait_for_sync().await;
                self.nodes.wait_for_sync().await;
                let mut missing = HashMap::new();
                loop {
                    self.collect(&mut missing).await;
                    time::sleep(EVERY).await;
                }
            };
            stop.unless_stopped(work).await;
            Ok(())
        }
        .boxed()
    }
}

impl PodGarbage {
    /// `missing` are the nodes that pods name and nobody knows, and since when.
    async fn collect(&self, missing: &mut HashMap<String, Instant>) {
        let mut gone: Vec<(Arc<Pod>, Why)> = Vec::new();
        let ended = choice::ended(self.by_state.get(ENDED), MOST_ENDED);
        gone.extend(ended.into_iter().map(|pod| (pod, Why::Ended)));
        for pod in self.by_state.get(GOING) {
            let why = match &*pod.spec.node_name {
                "" => Why::Unscheduled,
                node => match self.nodes.store().get(&Key::new("", node)) {
                    Some(node) if !node.is_ready() && node.is_tainted(OUT_OF_SERVICE) => Why::OutOfService,
                    _ => continue,
                },
            };
            gone.push((pod, why));
        }
        for node in self.lost_nodes(missing).await {
            let orphans = self.by_node.get(&node);
            gone.extend(orphans.into_iter().map(|pod| (pod, Why::Orphaned)));
        }
        stream::iter(gone)
            .for_each_concurrent(AT_ONCE, |(pod, why)| async move {
                let labels = [&*pod.metadata.namespace, why.name()];
                self.metrics.increment(&ENDED_PODS, &labels, 1);
                if let Err(error) = self.end(&pod, why).await {
                    self.metrics.increment(&FAILURES, &labels, 1);
                    let name = &*pod.metadata.name;
                    tracing::warn!(pod = name, namespace = &*pod.metadata.namespace, ?why, %error, "cannot end a pod");
                }
            })
            .await;
    }

    /// The nodes that have been missing for long enough, and that the server does not know either.
    async fn lost_nodes(&self, missing: &mut HashMap<String, Instant>) -> Vec<String> {
        let named: HashSet<String> = self.by_node.values().into_iter().collect();
        let is_known = |node: &str| self.nodes.store().get(&Key::new("", node)).is_some();
        missing.retain(|node, _| named.contains(node) && !is_known(node));
        let now = Instant::now();
        for node in named.into_iter().filter(|node| !is_known(node)) {
            missing.entry(node).or_insert(now);
        }
        let mut lost = Vec::new();
        for (node, since) in missing.iter() {
            if now.duration_since(*since) >= QUARANTINE {
                let read: kube::Result<Value> = self.writer.get(Place::new(&NODES, "", node)).await;
                if matches!(read, Err(error) if is(&error, 404)) {
                    lost.push(node.clone());
                }
            }
        }
        lost
    }

    async fn end(&self, pod: &Pod, why: Why) -> kube::Result<()> {
        let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        if !pod.has_ended() {
            let patch = choice::failed(pod, why, self.clock.now());
            match self
                .writer
                .merge_lists::<Value>(place.part("status"), &patch)
                .await
            {
                Err(error) if is(&error, 404) => return Ok(()),
                other => other.map(|_| ())?,
            }
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}});
        self.writer.delete(place, &options).await
    }
}
