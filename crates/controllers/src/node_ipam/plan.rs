//! Which networks nodes get.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::range::{BadRange, Range, Used};
use crate::{
    cidr::{Cidr, CidrParseError},
    context::NodeNetworks,
    objects::Node,
};

/// What a node is about to get. It is written down before the networks themselves, which cannot be taken back, so that two
/// who choose at the same time see each other.
pub(super) const CLAIM: &str = "k3/pod-network-claim";

/// What networks are cut from.
#[derive(Clone, Debug)]
pub(super) struct Ranges {
    cut: Vec<Range>,
    /// Networks of others.
    taken: Vec<Cidr>,
}

/// Networks cannot be given out like that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    /// One is no network.
    #[error(transparent)]
    Cidr(#[from] CidrParseError),
    /// One cannot be cut.
    #[error(transparent)]
    Range(#[from] BadRange),
}

/// A node that gets networks.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) node: Arc<Node>,
    /// One of each range; `None` if there is none left.
    pub(super) networks: Option<Vec<Cidr>>,
}

// --- Ranges ---

impl Ranges {
    pub(super) fn new(networks: &NodeNetworks) -> Result<Self, Wrong> {
        let mut ranges = Vec::new();
        for text in &networks.pods {
            let block = if text.contains(':') {
                networks.block_v6
            } else {
                networks.block_v4
            };
            ranges.push(Range::new(text.parse()?, block)?);
        }
        let taken = networks.services.iter().map(|text| text.parse());
        Ok(Ranges {
            cut: ranges,
            taken: taken.collect::<Result<_, _>>()?,
        })
    }

    /// Chooses networks for the nodes that have none, the oldest first. `next` is where the search begins in each range; the
    /// next one begins behind, so that a network is not used again at once. A node that clashed with another begins at a place
    /// of its own, so that they do not clash again.
    pub(super) fn choose(
        &self,
        nodes: &[Arc<Node>],
        next: &mut Vec<usize>,
        has_clashed: impl Fn(&Node) -> bool,
    ) -> Vec<Choice> {
        next.resize(self.cut.len(), 0);
        let mut used: Vec<Used> = self.cut.iter().map(Used::new).collect();
        for (range, used) in self.cut.iter().zip(&mut used) {
            for network in nodes
                .iter()
                .flat_map(|node| held(node))
                .chain(self.taken.iter().copied())
            {
                used.occupy(range, &network);
            }
        }
        let mut wanting: Vec<_> = nodes.iter().filter(|node| is_wanting(node)).collect();
        wanting.sort_by_key(|node| (node.metadata.creation_timestamp, &node.metadata.name));
        let choices = wanting.into_iter().map(|node| {
            let claimed = held(node);
            let mut search = || {
                let mut networks = Vec::new();
                for ((range, used), next) in self.cut.iter().zip(&mut used).zip(next.iter_mut()) {
                    let start = if has_clashed(node) {
                        place(&node.metadata.uid, range.len())
                    } else {
                        *next
                    };
                    let index = used.take(range, start)?;
                    *next = (index + 1) % range.len();
                    networks.push(range.block(index));
                }
                Some(networks)
            };
            let networks = if self.is_right(&claimed) {
                Some(claimed)
            } else {
                search()
            };
            Choice {
                node: Arc::clone(node),
                networks,
            }
        });
        choices.collect()
    }

    /// The uids of the nodes that hold what others hold too.
    pub(super) fn clashes<'a>(&self, nodes: &'a [Node]) -> HashSet<&'a str> {
        let mut clashes = HashSet::new();
        let held: Vec<_> = nodes
            .iter()
            .map(|node| (&*node.metadata.uid, held(node)))
            .collect();
        for range in &self.cut {
            let mut holders: HashMap<usize, &str> = HashMap::new();
            for (uid, networks) in &held {
                let touched = networks.iter().filter_map(|network| range.touched(network));
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

    /// Whether these are a block of each range.
    fn is_right(&self, networks: &[Cidr]) -> bool {
        let mut pairs = self.cut.iter().zip(networks);
        networks.len() == self.cut.len() && pairs.all(|(range, network)| range.has(network))
    }
}

/// Whether a node is to get networks.
pub(super) fn is_wanting(node: &Node) -> bool {
    node.spec.pod_networks.is_empty() && !node.metadata.is_going()
}

/// The networks that a node has, or is about to get.
pub(super) fn held(node: &Node) -> Vec<Cidr> {
    let parse = |text: &str| text.parse().ok();
    if node.spec.pod_networks.is_empty() {
        let claim = node.metadata.annotation(CLAIM).unwrap_or_default();
        claim.split(',').filter_map(parse).collect()
    } else {
        node.spec
            .pod_networks
            .iter()
            .filter_map(|text| parse(text))
            .collect()
    }
}

/// A place of one's own.
fn place(uid: &str, len: usize) -> usize {
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

    fn ranges(pods: &[&str], services: &[&str], block_v4: Option<u8>) -> Ranges {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        Ranges::new(&NodeNetworks {
            pods: texts(pods),
            services: texts(services),
            block_v4,
            block_v6: None,
        })
        .unwrap()
    }

    fn chosen(ranges: &Ranges, nodes: &[Arc<Node>], next: &mut Vec<usize>) -> Vec<(String, Option<String>)> {
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
    fn nodes_get_what_nobody_has_or_is_about_to_get() {
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
    fn what_was_given_back_is_used_again_last() {
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
    fn nodes_clash_that_hold_the_same() {
        let ranges = ranges(&["10.0.0.0/16"], &[], None);
        for (other, expected) in [
            (node("b", &[], "10.0.0.0/24"), 2),
            (node("b", &["10.0.0.128/25"], ""), 2),
            (node("b", &["10.0.1.0/24"], "10.0.0.0/24"), 0),
            (node("b", &[], ""), 0),
        ] {
            let nodes = [(*node("a", &["10.0.0.0/24"], "")).clone(), (*other).clone()];
            assert_eq!(ranges.clashes(&nodes).len(), expected, "{other:?}");
        }
    }
}
