//! Nodes.

use k3_workloads::{SharedList, Taint, Toleration};

use super::{Resources, SchedulerObject, spec::tagged};
use crate::{
    interner::{StringInterner, Text},
    labels::Labels,
};

/// A node as it is kept.
// upstream: pkg/scheduler/framework/types.go NodeInfo
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Text,
    /// Its labels.
    pub labels: Labels,
    /// What keeps pods away.
    pub taints: SharedList<Taint>,
    /// Whether the node is cordoned.
    pub unschedulable: bool,
    /// What it can give.
    pub allocatable: Resources,
    /// How many pods it can run.
    pub pods: i64,
    /// The images it has, with their sizes; sorted.
    pub images: Box<[(Text, i64)]>,
}

impl SchedulerObject for Node {
    type Source = k3_workloads::Node;

    fn read(source: &k3_workloads::Node, interner: &mut StringInterner) -> Self {
        let k3_workloads::Node {
            metadata: meta,
            spec,
            status,
        } = source;
        let images = status.images.iter();
        let images = images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
        let mut images: Vec<_> = images
            .map(|(name, size)| (interner.text(&tagged(name)), size))
            .collect();
        images.sort();
        images.dedup_by(|later, earlier| later.0 == earlier.0);
        Node {
            name: interner.text(&meta.name),
            labels: (*Labels::derive(&meta.labels, interner)).clone(),
            taints: spec.taints.clone(),
            unschedulable: spec.unschedulable,
            allocatable: Resources::read(&status.allocatable, interner),
            pods: status.allocatable.get("pods").map_or(0, |amount| amount.value),
            images: images.into(),
        }
    }
}

impl Node {
    /// The zone it is in; nodes of different zones take turns.
    pub fn zone(&self) -> String {
        let label = |old: &str, new: &str| {
            self.labels
                .get(old)
                .or_else(|| self.labels.get(new))
                .map_or("", |text| text)
        };
        let zone = label(
            "failure-domain.beta.kubernetes.io/zone",
            "topology.kubernetes.io/zone",
        );
        let region = label(
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        );
        format!("{region}\0{zone}")
    }

    /// The size of an image that is there.
    pub fn image(&self, name: &Text) -> Option<i64> {
        let found = self.images.binary_search_by(|(known, _)| known.cmp(name));
        found.ok().map(|at| self.images[at].1)
    }

    /// Whether a taint keeps out a pod that bears these.
    pub fn has_untolerated_taint(&self, tolerations: &[Toleration]) -> bool {
        let hard = self
            .taints
            .iter()
            .filter(|taint| [Taint::NO_SCHEDULE, Taint::NO_EXECUTE].contains(&&*taint.effect));
        hard.into_iter().any(|taint| !taint.is_tolerated_by(tolerations))
    }
}
