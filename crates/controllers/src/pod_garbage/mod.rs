//! The pod garbage collector: deletes terminated pods beyond a threshold, unscheduled terminating pods and pods of deleted nodes.

mod selection;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use k3_workloads::{Node, Pod};
use kubecontroller::{
    Clock, Key,
    informer::Informer,
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
    store::Index,
};
use serde_json::{Value, json};
use tokio::time::{self, Instant};

use self::selection::DeletionReason;

use crate::{
    context::{ControllerContext, Task},
    resource::{NODES, PODS},
    writer::{ApiWriter, ObjectRef, has_status_code},
};

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before its pods are deleted.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Terminated pods that are kept (the default of kube-controller-manager --terminated-pod-gc-threshold).
const TERMINATED_POD_THRESHOLD: usize = 12_500;
/// Pods deleted concurrently.
const CONCURRENT_DELETIONS: usize = 20;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
const TERMINATED: &str = "ended";
const TERMINATING: &str = "terminating";

const DELETED_PODS: MetricDesc = MetricDesc::counter(
    "pod_gc_collector_force_delete_pods_total",
    "Number of pods that are being forcefully deleted since the Pod GC Controller started.",
    &["namespace", "reason"],
);
const FAILURES: MetricDesc = MetricDesc::counter(
    "pod_gc_collector_force_delete_pod_errors_total",
    "Number of errors encountered when forcefully deleting the pods since the Pod GC Controller started.",
    &["namespace", "reason"],
);

// upstream: pkg/controller/podgc/gc_controller.go PodGCController
struct PodGarbageCollector {
    writer: ApiWriter,
    clock: Clock,
    metrics: Metrics,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    /// Terminated pods, and terminating pods.
    by_state: Index<Pod>,
    by_node: Index<Pod>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let pods = context.pods();
    let by_state = pods.store().index(|pod| {
        let states = [
            (pod.has_ended(), TERMINATED),
            (pod.metadata.is_terminating(), TERMINATING),
        ];
        let states = states.iter().filter(|(is_so, _)| *is_so);
        states.map(|(_, state)| (*state).to_owned()).collect()
    });
    vec![Box::new(PodGarbageCollector {
        writer: context.writer.clone(),
        clock: context.clock.clone(),
        metrics: context.metrics.clone(),
        nodes: context.informer(&NODES),
        pods,
        by_state,
        by_node: context.pods_by_node(),
    })]
}

// --- PodGarbageCollector ---

impl Runnable for PodGarbageCollector {
    fn name(&self) -> &'static str {
        "pod-garbage-collector-controller"
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        async move {
            let work = async {
                self.pods.wait_for_sync().await;
                self.nodes.wait_for_sync().await;
                let mut missing = HashMap::new();
                loop {
                    self.collect(&mut missing).await;
                    time::sleep(PERIOD).await;
                }
            };
            stop.unless_stopped(work).await;
            Ok(())
        }
        .boxed()
    }
}

impl PodGarbageCollector {
    /// `missing` are the nodes that pods refer to and that do not exist, and since when.
    // upstream: pkg/controller/podgc/gc_controller.go gc, gcOrphaned, gcUnscheduledTerminating, gcTerminating
    async fn collect(&self, missing: &mut HashMap<String, Instant>) {
        let mut removed: Vec<(Arc<Pod>, DeletionReason)> = Vec::new();
        let ended =
            selection::terminated_beyond_threshold(self.by_state.get(TERMINATED), TERMINATED_POD_THRESHOLD);
        removed.extend(ended.into_iter().map(|pod| (pod, DeletionReason::Terminated)));
        for pod in self.by_state.get(TERMINATING) {
            let why = match &*pod.spec.node_name {
                "" => DeletionReason::Unscheduled,
                node => match self.nodes.store().get(&Key::new("", node)) {
                    Some(node) if !node.is_ready() && node.has_taint(OUT_OF_SERVICE) => {
                        DeletionReason::OutOfService
                    }
                    _ => continue,
                },
            };
            removed.push((pod, why));
        }
        for node in self.deleted_nodes(missing).await {
            let orphans = self.by_node.get(&node);
            removed.extend(orphans.into_iter().map(|pod| (pod, DeletionReason::Orphaned)));
        }
        stream::iter(removed)
            .for_each_concurrent(CONCURRENT_DELETIONS, |(pod, why)| async move {
                let labels = [&*pod.metadata.namespace, why.name()];
                self.metrics.increment(&DELETED_PODS, &labels, 1);
                if let Err(error) = self.mark_failed_and_delete(&pod, why).await {
                    self.metrics.increment(&FAILURES, &labels, 1);
                    let name = &*pod.metadata.name;
                    tracing::warn!(pod = name, namespace = &*pod.metadata.namespace, ?why, %error, "failed to delete pod");
                }
            })
            .await;
    }

    /// Nodes that have been missing for the quarantine time, and that the server does not have either.
    // upstream: pkg/controller/podgc/gc_controller.go discoverDeletedNodes, checkIfNodeExists
    async fn deleted_nodes(&self, missing: &mut HashMap<String, Instant>) -> Vec<String> {
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
                let read: kube::Result<Value> = self.writer.get(ObjectRef::new(&NODES, "", node)).await;
                if matches!(read, Err(error) if has_status_code(&error, 404)) {
                    lost.push(node.clone());
                }
            }
        }
        lost
    }

    // upstream: pkg/controller/podgc/gc_controller.go markFailedAndDeletePod
    async fn mark_failed_and_delete(&self, pod: &Pod, why: DeletionReason) -> kube::Result<()> {
        let object_ref = ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
        if !pod.has_ended() {
            let patch = selection::failed_status_patch(pod, why, self.clock.now());
            match self
                .writer
                .strategic_merge_patch::<Value>(object_ref.subresource("status"), &patch)
                .await
            {
                Err(error) if has_status_code(&error, 404) => return Ok(()),
                other => other.map(|_| ())?,
            }
        }
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": pod.metadata.uid}});
        self.writer.delete(object_ref, &options).await
    }
}
