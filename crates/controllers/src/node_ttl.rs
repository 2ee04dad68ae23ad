//! Every node is told for how long its agent may keep secrets and config maps without asking for them again: the more nodes,
//! the longer, so that their questions stay few.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
};

use kubecontroller::controller::{Outcome, reconcile_fn};
use serde_json::json;

use crate::{
    context::{Context, Task},
    objects::Node,
    resource::NODES,
    writer::{Made, Place, is},
};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// How many nodes there are in clusters of a size, and what they are told, in seconds. Sizes overlap, so that a cluster at the
/// edge of one does not write all its nodes again with each that comes and goes.
const SIZES: [(RangeInclusive<usize>, u32); 5] = [
    (0..=100, 0),
    (90..=500, 15),
    (450..=1000, 30),
    (900..=2000, 60),
    (1800..=usize::MAX, 300),
];

/// The size that the cluster has.
#[derive(Debug, Default)]
struct Size {
    /// A position in [`SIZES`].
    at: usize,
}

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let nodes = context.informer::<Node>(&NODES);
    let (writer, store) = (context.writer.clone(), nodes.store().clone());
    let size = Arc::new(Mutex::new(Size::default()));
    let runner = context
        .controller("ttlcontroller")
        .for_(&nodes)
        .reconciler(reconcile_fn(move |request| {
            let (writer, nodes, node) = (writer.clone(), nodes.clone(), store.get(&request.key));
            let seconds = size
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .seconds(store.len());
            async move {
                let Some(node) = node.filter(|node| told(node) != Some(seconds)) else {
                    return Ok(Outcome::Done);
                };
                let patch = json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}});
                let place = Place::new(&NODES, "", &node.metadata.name);
                match writer.merge_lists::<Made>(place, &patch).await {
                    Ok(made) => request.record_write(&nodes, &made.metadata.resource_version),
                    Err(error) if is(&error, 404) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(Outcome::Done)
            }
        }));
    vec![Box::new(runner)]
}

fn told(node: &Node) -> Option<u32> {
    node.metadata.annotation(ANNOTATION)?.parse().ok()
}

// --- Size ---

impl Size {
    /// What the nodes are told when there are so many.
    fn seconds(&mut self, nodes: usize) -> u32 {
        while nodes > *SIZES[self.at].0.end() {
            self.at += 1;
        }
        while nodes < *SIZES[self.at].0.start() {
            self.at -= 1;
        }
        SIZES[self.at].1
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::Story;

    #[test]
    fn the_more_nodes_the_longer_and_edges_are_wide() {
        let mut size = Size::default();
        let counts = [1, 100, 101, 95, 90, 89, 600, 451, 10_000, 1800, 1799, 0];
        let seconds = counts.map(|count| size.seconds(count));
        assert_eq!(seconds, [0, 0, 15, 15, 15, 0, 30, 30, 300, 300, 60, 0]);
    }

    const STORY: Story = Story {
        make,
        setup: |stage| {
            for (name, annotations) in [
                ("new", json!({})),
                ("odd", json!({ANNOTATION: "long", "own": "x"})),
            ] {
                stage.put(
                    &NODES,
                    json!({"metadata": {"name": name, "annotations": annotations}}),
                );
            }
        },
        play: |_| {},
        end: |stage| {
            let nodes = stage.api.list::<k8s_openapi::api::core::v1::Node>().into_iter();
            let told: Vec<Value> = nodes.map(|node| json!(node.metadata.annotations)).collect();
            told.iter()
                .all(|told| told[ANNOTATION] == "0")
                .then(|| told.into())
        },
    };

    #[tokio::test(start_paused = true)]
    async fn every_node_is_told_once() {
        let (end, writes) = STORY.run().await;
        assert_eq!(end, json!([{ANNOTATION: "0"}, {ANNOTATION: "0", "own": "x"}]));
        assert_eq!(writes, 2);
        STORY.survives_crashes().await;
        STORY.survives_copies().await;
    }
}
