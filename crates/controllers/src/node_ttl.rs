//! The TTL controller: annotates nodes with how long kubelets may cache secrets and config maps. The more nodes, the longer,
//! to limit the load on the API server.

use std::ops::RangeInclusive;

use k3_workloads::Node;
use kubecontroller::{
    controller::{Error, Outcome, Reconciler, Request},
    informer::Informer,
    store::Store,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    context::{ControllerContext, Task},
    resource::NODES,
};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Cluster sizes, and the TTL in seconds. The ranges overlap, so that a cluster at a boundary does not annotate all nodes with
/// each added or removed node.
const TTL_BOUNDARIES: [(RangeInclusive<usize>, u32); 5] = [
    (0..=100, 0),
    (90..=500, 15),
    (450..=1000, 30),
    (900..=2000, 60),
    (1800..=usize::MAX, 300),
];

/// The current cluster size class.
#[derive(Debug, Default)]
struct ClusterSize {
    /// Index into [`TTL_BOUNDARIES`].
    at: usize,
}

// upstream: pkg/controller/ttl/ttl_controller.go Controller, updateNodeIfNeeded
struct TTLController {
    writer: ApiWriter,
    nodes: Informer<Node>,
    store: Store<Node>,
    size: Mutex<ClusterSize>,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let nodes = context.informer::<Node>(&NODES);
    let writer = context.writer.clone();
    let store = nodes.store().clone();
    let size = Mutex::new(ClusterSize::default());
    let runner = context
        .controller("ttl-controller")
        .for_(&nodes)
        .reconciler(TTLController {
            writer,
            nodes,
            store,
            size,
        });
    vec![Box::new(runner)]
}

impl Reconciler for TTLController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let TTLController {
            writer,
            nodes,
            store,
            size,
        } = self;
        let node = store.get(&request.key);
        let seconds = size.lock().ttl_seconds(store.len());
        let Some(node) = node.filter(|node| annotated_ttl(node) != Some(seconds)) else {
            return Ok(Outcome::Done);
        };
        let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
        let object_ref = ObjectRef::new(&NODES, "", &node.metadata.name);
        match writer
            .strategic_merge_patch::<WrittenObject>(object_ref, &patch)
            .await
        {
            Ok(written) => request.record_write(nodes, &written.metadata.resource_version),
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Done)
    }
}

// upstream: pkg/controller/ttl/ttl_controller.go getIntFromAnnotation
fn annotated_ttl(node: &Node) -> Option<u32> {
    node.metadata.annotation(ANNOTATION)?.parse().ok()
}

// --- ClusterSize ---

impl ClusterSize {
    /// The TTL for a number of nodes.
    // upstream: pkg/controller/ttl/ttl_controller.go addNode, deleteNode, getDesiredTTLSeconds
    fn ttl_seconds(&mut self, nodes: usize) -> u32 {
        while nodes > *TTL_BOUNDARIES[self.at].0.end() {
            self.at += 1;
        }
        while nodes < *TTL_BOUNDARIES[self.at].0.start() {
            self.at -= 1;
        }
        TTL_BOUNDARIES[self.at].1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::Scenario;

    #[test]
    fn ttl_grows_with_cluster_size() {
        let mut size = ClusterSize::default();
        let counts = [1, 100, 101, 95, 90, 89, 600, 451, 10_000, 1800, 1799, 0];
        let seconds = counts.map(|count| size.ttl_seconds(count));
        assert_eq!(seconds, [0, 0, 15, 15, 15, 0, 30, 30, 300, 300, 60, 0]);
    }

    const STORY: Scenario = Scenario {
        make,
        setup: |cluster| {
            for (name, annotations) in [
                ("new", json!({})),
                ("odd", json!({ANNOTATION: "long", "own": "x"})),
            ] {
                cluster.put(
                    &NODES,
                    json!({"metadata": {"name": name, "annotations": annotations}}),
                );
            }
        },
        play: |_| {},
        end: |cluster| {
            let nodes = cluster.api.list::<k8s_openapi::api::core::v1::Node>().into_iter();
            let reported: Vec<Value> = nodes.map(|node| json!(node.metadata.annotations)).collect();
            reported
                .iter()
                .all(|reported| reported[ANNOTATION] == "0")
                .then(|| reported.into())
        },
    };

    #[tokio::test(start_paused = true)]
    async fn annotates_every_node_once() {
        let (end, writes) = STORY.run().await;
        assert_eq!(end, json!([{ANNOTATION: "0"}, {ANNOTATION: "0", "own": "x"}]));
        assert_eq!(writes, 2);
        STORY.survives_crashes().await;
        STORY.survives_copies().await;
    }
}
