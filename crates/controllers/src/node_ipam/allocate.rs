//! Chooses CIDRs for nodes.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use k3_workloads::Node;

use super::cidr_set::{CidrRange, CidrSet, NodeMaskSizeError};
use crate::{
    cidr::{Cidr, CidrParseError},
    context::NodeNetworks,
};

/// The claim annotation. It is written before spec.podCIDR, which is immutable, so that two controllers that choose
/// concurrently see each other.
pub(super) const CLAIM: &str = "k3/pod-network-claim";

/// The cluster CIDRs.
#[derive(Clone, Debug)]
pub(super) struct ClusterCidrRanges {
    cut: Vec<CidrRange>,
    /// Service CIDRs, which are excluded.
    taken: Vec<Cidr>,
}

/// Invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ClusterCidrError {
    #[error(transparent)]
    Cidr(#[from] CidrParseError),
    #[error(transparent)]
    CidrRange(#[from] NodeMaskSizeError),
}

/// A node with its chosen CIDRs.
#[derive(Clone, Debug)]
pub(super) struct CidrChoice {
    pub(super) node: Arc<Node>,
    /// One of each cluster CIDR; `None` if one is exhausted.
    pub(super) networks: Option<Vec<Cidr>>,
}

// --- ClusterCidrRanges ---

impl ClusterCidrRanges {
    // upstream: pkg/controller/nodeipam/ipam/range_allocator.go NewCIDRRangeAllocator, filterOutServiceRange
    pub(super) fn new(networks: &NodeNetworks) -> Result<Self, ClusterCidrError> {
        let mut ranges = Vec::new();
        for text in &networks.pods {
            let block = if text.contains(':') {
                networks.block_v6
            } else {
                networks.block_v4
            };
            ranges.push(CidrRange::new(text.parse()?, block)?);
        }
        let taken = networks.services.iter().map(|text| text.parse());
        Ok(ClusterCidrRanges {
            cut: ranges,
            taken: taken.collect::<Result<_, _>>()?,
        })
    }

    /// Chooses CIDRs for nodes without any, oldest first. `next` is where the search starts in each range; the next search starts
    /// behind it, so that a CIDR is not reused immediately. A node that conflicted with another one starts at an offset of its
    /// own, so that they do not conflict again.
    // upstream: pkg/controller/nodeipam/ipam/range_allocator.go AllocateOrOccupyCIDR
    pub(super) fn choose(
        &self,
        nodes: &[Arc<Node>],
        next: &mut Vec<usize>,
        has_clashed: impl Fn(&Node) -> bool,
    ) -> Vec<CidrChoice> {
        next.resize(self.cut.len(), 0);
        let mut used: Vec<CidrSet> = self.cut.iter().map(CidrSet::new).collect();
        for (range, used) in self.cut.iter().zip(&mut used) {
            for network in nodes
                .iter()
                .flat_map(|node| cidrs_of(node))
                .chain(self.taken.iter().copied())
            {
                used.occupy(range, &network);
            }
        }
        let mut wanting: Vec<_> = nodes.iter().filter(|node| needs_cidrs(node)).collect();
        wanting.sort_by_key(|node| (node.metadata.creation_timestamp, &node.metadata.name));
        let choices = wanting.into_iter().map(|node| {
            let claimed = cidrs_of(node);
            let mut search = || {
                let mut networks = Vec::new();
                for ((range, used), next) in self.cut.iter().zip(&mut used).zip(next.iter_mut()) {
                    let start = if has_clashed(node) {
                        search_offset(&node.metadata.uid, range.len())
                    } else {
                        *next
                    };
                    let index = used.allocate_next(range, start)?;
                    *next = (index + 1) % range.len();
                    networks.push(range.block(index));
                }
                Some(networks)
            };
            let networks = if self.is_complete(&claimed) {
                Some(claimed)
            } else {
                search()
            };
            CidrChoice {
                node: Arc::clone(node),
                networks,
            }
        });
        choices.collect()
    }

    /// UIDs of nodes whose CIDRs other nodes have or claim too.
    pub(super) fn conflicting_nodes<'a>(&self, nodes: &'a [Node]) -> HashSet<&'a str> {
        let mut clashes = HashSet::new();
        let held: Vec<_> = nodes
            .iter()
            .map(|node| (&*node.metadata.uid, cidrs_of(node)))
            .collect();
        for range in &self.cut {
            let mut holders: HashMap<usize, &str> = HashMap::new();
            for (uid, networks) in &held {
                let touched = networks
                    .iter()
                    .filter_map(|network| range.overlapping_blocks(network));
                for block in touched.flat_map(|(first, last)| first..=last) {
                    let holder = *holders.entry(block).or_insert(uid);
                    if holder != *uid {
                        clashes.extend([holder, uid]);
                    }
                }
            }
        }
        clashes
    }

    /// Whether these are one block of each range.
    fn is_complete(&self, networks: &[Cidr]) -> bool {
        let mut pairs = self.cut.iter().zip(networks);
        networks.len() == self.cut.len() && pairs.all(|(range, network)| range.has(network))
    }
}

/// Whether a node needs CIDRs.
pub(super) fn needs_cidrs(node: &Node) -> bool {
    node.spec.pod_cidrs.is_empty() && !node.metadata.is_terminating()
}

/// CIDRs that a node has or claims.
pub(super) fn cidrs_of(node: &Node) -> Vec<Cidr> {
    let parse = |text: &str| text.parse().ok();
    if node.spec.pod_cidrs.is_empty() {
        let claim = node.metadata.annotation(CLAIM).unwrap_or_default();
        claim.split(',').filter_map(parse).collect()
    } else {
        node.spec
            .pod_cidrs
            .iter()
            .filter_map(|text| parse(text))
            .collect()
    }
}

/// A search offset derived from the UID.
fn search_offset(uid: &str, len: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    usize::try_from(hasher.finish() % len as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, networks: &[&str], claim: &str) -> Arc<Node> {
        let node = json!({"metadata": {"name": name, "uid": name, "annotations": {CLAIM: claim}}, "spec": {"podCIDRs": networks}});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn ranges(pods: &[&str], services: &[&str], block_v4: Option<u8>) -> ClusterCidrRanges {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        ClusterCidrRanges::new(&NodeNetworks {
            pods: texts(pods),
            services: texts(services),
            block_v4,
            block_v6: None,
        })
        .unwrap()
    }

    fn chosen(
        ranges: &ClusterCidrRanges,
        nodes: &[Arc<Node>],
        next: &mut Vec<usize>,
    ) -> Vec<(String, Option<String>)> {
        let choices = ranges.choose(nodes, next, |_| false).into_iter();
        choices
            .map(|choice| {
                let networks = choice.networks.map(|networks| {
                    let texts: Vec<_> = networks.iter().map(ToString::to_string).collect();
                    texts.join(",")
                });
                (choice.node.metadata.name.to_string(), networks)
            })
            .collect()
    }

    #[test]
    fn chooses_unclaimed_cidrs() {
        let ranges = ranges(&["10.0.0.0/21", "fd00::/62"], &["10.0.1.0/24"], None);
        let nodes = [
            node("a", &["10.0.2.0/24", "fd00::/64"], ""),
            node("b", &[], "10.0.3.0/24,fd00:0:0:1::/64"),
            node("c", &[], ""),
            node("d", &[], "10.0.3.0/24"),
            node("e", &[], ""),
            node("f", &[], ""),
        ];
        let mut next = Vec::new();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            chosen(&ranges, &nodes, &mut next),
            [
                ("b".to_owned(), text("10.0.3.0/24,fd00:0:0:1::/64")),
                ("c".to_owned(), text("10.0.0.0/24,fd00:0:0:2::/64")),
                ("d".to_owned(), text("10.0.4.0/24,fd00:0:0:3::/64")),
                ("e".to_owned(), None),
                ("f".to_owned(), None),
            ]
        );
    }

    #[test]
    fn reuses_released_cidrs_last() {
        let ranges = ranges(&["10.0.0.0/22"], &[], None);
        let mut next = Vec::new();
        let one = [node("a", &[], "")];
        let names = (0..5).map(|_| chosen(&ranges, &one, &mut next)[0].1.clone().unwrap());
        assert_eq!(
            names.collect::<Vec<_>>(),
            [
                "10.0.0.0/24",
                "10.0.1.0/24",
                "10.0.2.0/24",
                "10.0.3.0/24",
                "10.0.0.0/24"
            ]
        );
    }

    #[test]
    fn detects_conflicting_nodes() {
        let ranges = ranges(&["10.0.0.0/16"], &[], None);
        for (other, expected) in [
            (node("b", &[], "10.0.0.0/24"), 2),
            (node("b", &["10.0.0.128/25"], ""), 2),
            (node("b", &["10.0.1.0/24"], "10.0.0.0/24"), 0),
            (node("b", &[], ""), 0),
        ] {
            let nodes = [(*node("a", &["10.0.0.0/24"], "")).clone(), (*other).clone()];
            assert_eq!(ranges.conflicting_nodes(&nodes).len(), expected, "{other:?}");
        }
    }
}
