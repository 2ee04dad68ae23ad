//! A node that has a pod's images is better.

use super::normalize_score::MAX_NODE_SCORE;
use crate::{
    cache::SchedulerCache,
    interner::Text,
    number::{count, to_f64, to_i64},
    object::{Node, Pod},
};

const MIB: i64 = 1024 * 1024;
/// Less than this is not worth anything.
const MIN_THRESHOLD: i64 = 23 * MIB;
/// More than this per container is not worth more.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

/// The images of a pod that some node has, with the share of nodes that have each.
#[derive(Debug)]
pub(super) struct Images {
    shares: Vec<(Text, f64)>,
    containers: i64,
}

impl Images {
    /// Those of a pod; `None` when no node has any.
    // upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go sumImageScores, scaledImageScore
    pub(super) fn of(pod: &Pod, cluster: &SchedulerCache) -> Option<Self> {
        let total = to_f64(count(cluster.order().len()));
        let shares = pod.spec.images.iter().filter_map(|image| {
            let nodes = cluster.nodes_with_image(image);
            (nodes > 0).then(|| (image.clone(), to_f64(count(nodes)) / total))
        });
        let shares: Vec<_> = shares.collect();
        let containers = count(pod.spec.images.len());
        (!shares.is_empty()).then_some(Images { shares, containers })
    }

    /// The size of the images that a node has; images that many nodes have count more, so that the first node that
    /// pulls one does not draw all pods.
    // upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go Score, calculatePriority
    pub(super) fn score(&self, node: &Node) -> i64 {
        let sizes = self
            .shares
            .iter()
            .filter_map(|(image, share)| Some(to_i64(to_f64(node.image(image)?) * share)));
        let most = MAX_CONTAINER_THRESHOLD * self.containers;
        let sum = sizes.sum::<i64>().clamp(MIN_THRESHOLD, most);
        MAX_NODE_SCORE * (sum - MIN_THRESHOLD) / (most - MIN_THRESHOLD)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn large_images_that_are_there_are_worth_something() {
        let mut sample = TestCluster::default();
        let mut node = |name: &str, images: &[(&str, i64)]| {
            let images: Vec<_> = images
                .iter()
                .map(|(name, mib)| json!({"names": [name], "sizeBytes": mib * MIB}))
                .collect();
            sample.node(name, |node| node["status"]["images"] = json!(images))
        };
        let full = node("full", &[("img:1", 1046), ("other", 5)]);
        let half = node("half", &[("img:1", 1046), ("big:latest", 2000)]);
        let small = node("small", &[("tiny:latest", 10)]);
        let pod = sample.pod("p", |_| {});
        let images = Images::of(&pod, &sample.cluster).unwrap();
        // Two of three nodes have it: 697.3 of 1046 MiB count, and (697.3 - 23) / (1000 - 23) is 0.69.
        assert_eq!(images.score(&full), 69);
        assert_eq!(images.score(&half), images.score(&full));
        assert_eq!(images.score(&small), 0);
        let untagged = sample.pod("q", |pod| pod["spec"]["containers"][0]["image"] = "tiny".into());
        assert_eq!(
            Images::of(&untagged, &sample.cluster).unwrap().score(&small),
            0,
            "too small to count"
        );
        let unknown = sample.pod("r", |pod| {
            pod["spec"]["containers"][0]["image"] = "unknown".into();
        });
        assert!(Images::of(&unknown, &sample.cluster).is_none());
    }
}
