//! Plugin `ImageLocality`: prefers nodes that have the images of the pod.

use super::{
    CandidateNode, CycleContext, ExtensionPoint, PreScoreResult, SchedulerPlugin,
    normalize_score::MAX_NODE_SCORE,
};
use crate::{
    interner::Text,
    number::{count, to_f64, to_i64},
};

const MIB: i64 = 1024 * 1024;
/// Images of less than this do not count.
const MIN_THRESHOLD: i64 = 23 * MIB;
/// More than this per container does not count more.
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

#[derive(Debug)]
pub(super) struct ImageLocality;

/// The images of a pod that some node has, with the share of nodes that have each.
#[derive(Clone, Debug, Default)]
pub(super) struct PodImages {
    shares: Vec<(Text, f64)>,
    containers: i64,
}

impl SchedulerPlugin for ImageLocality {
    type State = PodImages;

    fn name(&self) -> &'static str {
        "ImageLocality"
    }

    fn extension_points(&self) -> &'static [ExtensionPoint] {
        &[ExtensionPoint::Score]
    }

    // upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go sumImageScores, scaledImageScore
    fn pre_score(
        &self,
        cycle: &CycleContext<'_>,
        images: &mut PodImages,
        _: &[CandidateNode<'_>],
    ) -> PreScoreResult {
        let cluster = cycle.cluster;
        let total = to_f64(count(cluster.order().len()));
        let shares = cycle.pod.spec.images.iter().filter_map(|image| {
            let nodes = cluster.nodes_with_image(image);
            (nodes > 0).then(|| (image.clone(), to_f64(count(nodes)) / total))
        });
        images.shares = shares.collect();
        images.containers = count(cycle.pod.spec.images.len());
        PreScoreResult::score_if(!images.shares.is_empty())
    }

    /// The size of the images that a node has. Images that many nodes have count more, so that the first node that pulls
    /// one does not attract all pods.
    // upstream: pkg/scheduler/framework/plugins/imagelocality/image_locality.go Score, calculatePriority
    fn score(&self, _: &CycleContext<'_>, images: &PodImages, node: &CandidateNode<'_>) -> i64 {
        let sizes = images
            .shares
            .iter()
            .filter_map(|(image, share)| Some(to_i64(to_f64(node.node.image(image)?) * share)));
        let most = MAX_CONTAINER_THRESHOLD * images.containers;
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
        node("full", &[("img:1", 1046), ("other", 5)]);
        node("half", &[("img:1", 1046), ("big:latest", 2000)]);
        node("small", &[("tiny:latest", 10)]);
        let pod = sample.pod("p", |_| {});
        let untagged = sample.pod("q", |pod| pod["spec"]["containers"][0]["image"] = "tiny".into());
        let unknown = sample.pod("r", |pod| {
            pod["spec"]["containers"][0]["image"] = "unknown".into();
        });
        let score = |pod, node| {
            let cycle = sample.cycle(pod);
            let mut images = PodImages::default();
            let result = ImageLocality.pre_score(&cycle, &mut images, &[]);
            let score = ImageLocality.score(&cycle, &images, &sample.candidate(node));
            (result == PreScoreResult::Score).then_some(score)
        };
        // Two of three nodes have it: 697.3 of 1046 MiB count, and (697.3 - 23) / (1000 - 23) is 0.69.
        assert_eq!(score(&pod, "full"), Some(69));
        assert_eq!(score(&pod, "half"), Some(69));
        assert_eq!(score(&pod, "small"), Some(0));
        assert_eq!(score(&untagged, "small"), Some(0), "too small to count");
        assert_eq!(score(&unknown, "full"), None);
    }
}
