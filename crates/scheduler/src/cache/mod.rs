//! The scheduler cache: nodes and the pods on them, including assumed pods.
//!
//! One task owns it. Informer events are applied between two scheduling cycles, never during one: a
//! cycle sees one consistent state without upstream's Snapshot copy. Each change of a node is appended to a log, so that
//! state over all nodes is refreshed by visiting only the nodes that changed ([`crate::incremental`]).

mod change_log;
mod default_selectors;
mod node_info;
mod node_tree;
mod storage;

use std::sync::Arc;

use hashbrown::{HashMap, hash_map::Entry};

pub(crate) use change_log::ChangeLog;
pub(crate) use default_selectors::DefaultSelectors;
pub use node_info::NodeInfo;
pub(crate) use node_info::ports_conflict;
pub(crate) use storage::{Key, Storage};

use crate::{
    interner::Text,
    labels::Labels,
    object::{Node, Pod, PodDisruptionBudget},
};
use node_tree::NodeTree;

/// Nodes with their pods, and every other object that plugins read.
#[derive(Debug, Default)]
// upstream: pkg/scheduler/backend/cache/cache.go cacheImpl
pub struct SchedulerCache {
    infos: Vec<NodeInfo>,
    slots: HashMap<Text, usize>,
    free: Vec<usize>,
    tree: NodeTree,
    order: Vec<usize>,
    pods: HashMap<Text, PodState>,
    claims: HashMap<Key, usize>,
    images: HashMap<Text, usize>,
    pods_with_affinity: usize,
    /// Which nodes changed.
    pub(crate) log: ChangeLog,
    /// The labels of namespaces.
    pub(crate) namespaces: Namespaces,
    /// Volumes.
    pub(crate) storage: Storage,
    /// What groups pods.
    pub(crate) default_selectors: DefaultSelectors,
    /// Budgets of disruption by namespace and name.
    pub(crate) budgets: HashMap<Key, Arc<PodDisruptionBudget>>,
}

/// The labels of namespaces, and how often any changed.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    labels: HashMap<Text, Labels>,
    /// How often any changed.
    pub changes: u64,
}

#[derive(Debug)]
struct PodState {
    pod: Arc<Pod>,
    slot: usize,
    assignment: Assignment,
}

/// How it is known that a pod is on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assignment {
    /// The pod was read so.
    Observed,
    /// The binding was decided and is not observed yet.
    Assumed,
}

/// What happens to something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountChange {
    Added,
    Removed,
}

impl SchedulerCache {
    /// The slots of the nodes in the order in which they are tried: zones take turns.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// How many places for nodes there are; each is below this.
    pub(crate) fn slot_count(&self) -> usize {
        self.infos.len()
    }

    /// The node in a slot, with its pods.
    pub fn info(&self, slot: usize) -> &NodeInfo {
        &self.infos[slot]
    }

    /// The node object in a slot; `None` if only pods of the node are known.
    pub fn node(&self, slot: usize) -> Option<&Node> {
        self.infos[slot].node.as_deref()
    }

    /// The slot of a node by name.
    pub fn slot(&self, name: &str) -> Option<usize> {
        let slot = *self.slots.get(name)?;
        self.infos[slot].node.is_some().then_some(slot)
    }

    /// How many nodes have an image.
    pub(crate) fn nodes_with_image(&self, name: &Text) -> usize {
        self.images.get(name).copied().unwrap_or(0)
    }

    /// Whether a pod on some node uses a claim.
    pub(crate) fn claim_in_use(&self, key: &Key) -> bool {
        self.claims.contains_key(key)
    }

    /// Whether any assigned pod has pod affinity or anti-affinity terms.
    pub(crate) fn any_pods_with_affinity(&self) -> bool {
        self.pods_with_affinity > 0
    }

    /// A pod that is on a node, or is assumed to be.
    pub fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.get(uid).map(|placed| &placed.pod)
    }

    /// How many pods are on nodes, or are assumed to be.
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// Whether a pod is placed only here so far.
    pub(crate) fn is_assumed(&self, uid: &str) -> bool {
        self.pods
            .get(uid)
            .is_some_and(|placed| placed.assignment == Assignment::Assumed)
    }

    /// Takes a node as it is now; gives what it was.
    pub(crate) fn set_node(&mut self, node: &Arc<Node>) -> Option<Arc<Node>> {
        let slot = self.slot_for(&node.name);
        let old = self.infos[slot].node.replace(Arc::clone(node));
        if let Some(old) = &old {
            for (image, _) in &old.images {
                self.count_image(image, CountChange::Removed);
            }
        }
        for (image, _) in &node.images {
            self.count_image(image, CountChange::Added);
        }
        let zone = node.zone();
        if old.as_ref().map(|old| old.zone()).as_ref() != Some(&zone) {
            if old.is_some() {
                self.tree.remove(slot);
            }
            self.tree.add(zone, slot);
            self.order = self.tree.list();
        }
        self.log.push(slot);
        old
    }

    /// Removes a node. Its pods stay in the cache until their own delete events arrive.
    pub(crate) fn remove_node(&mut self, name: &str) -> Option<Arc<Node>> {
        let slot = self.slot(name)?;
        let old = self.infos[slot].node.take()?;
        for (image, _) in &old.images {
            self.count_image(image, CountChange::Removed);
        }
        self.tree.remove(slot);
        self.order = self.tree.list();
        self.log.push(slot);
        self.drop_if_empty(slot);
        Some(old)
    }

    /// A pod that is on a node, whatever was known of it before.
    pub(crate) fn put_pod(&mut self, pod: Arc<Pod>) {
        self.assign_pod(pod, Assignment::Observed);
    }

    /// Assumes a pod on its node before the binding is observed.
    // upstream: pkg/scheduler/backend/cache/cache.go AssumePod
    pub(crate) fn assume(&mut self, pod: Arc<Pod>) {
        self.assign_pod(pod, Assignment::Assumed);
    }

    /// Removes a deleted pod, or forgets an assumed one.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<Arc<Pod>> {
        let placed = self.pods.remove(uid)?;
        self.infos[placed.slot].remove(&placed.pod.uid);
        self.count(&placed.pod, CountChange::Removed);
        self.log.push(placed.slot);
        self.drop_if_empty(placed.slot);
        Some(placed.pod)
    }

    fn assign_pod(&mut self, pod: Arc<Pod>, assignment: Assignment) {
        let Some(node) = pod.node.clone() else { return };
        let slot = self.slot_for(&node);
        if let Some(known) = self.pods.get_mut(&pod.uid) {
            let same = known.slot == slot && counts_alike(&known.pod, &pod);
            known.assignment = assignment;
            if same {
                self.infos[slot].swap(&pod);
                known.pod = pod;
                return;
            }
            self.remove_pod(&pod.uid.clone());
        }
        // Removing the old entry may have freed its slot.
        let slot = self.slot_for(&node);
        self.infos[slot].add(pod.clone());
        self.count(&pod, CountChange::Added);
        self.log.push(slot);
        let uid = pod.uid.clone();
        let state = PodState {
            pod,
            slot,
            assignment,
        };
        self.pods.insert(uid, state);
    }

    /// Counts a pod that was added, or no longer one that was removed.
    fn count(&mut self, pod: &Pod, change: CountChange) {
        if pod.spec.has_pod_affinity {
            match change {
                CountChange::Added => self.pods_with_affinity += 1,
                CountChange::Removed => self.pods_with_affinity -= 1,
            }
        }
        for claim in pod.claims() {
            tally(&mut self.claims, (pod.namespace.clone(), claim), change);
        }
    }

    fn count_image(&mut self, image: &Text, change: CountChange) {
        tally(&mut self.images, image.clone(), change);
    }

    fn slot_for(&mut self, name: &Text) -> usize {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let info = NodeInfo::named(name.clone());
        let slot = if let Some(slot) = self.free.pop() {
            self.infos[slot] = info;
            slot
        } else {
            self.infos.push(info);
            self.infos.len() - 1
        };
        self.slots.insert(name.clone(), slot);
        slot
    }

    fn drop_if_empty(&mut self, slot: usize) {
        let info = &self.infos[slot];
        if info.node.is_none() && info.pods.is_empty() {
            self.slots.remove(&info.name);
            self.infos[slot] = NodeInfo::named("".into());
            self.free.push(slot);
        }
    }
}

impl Namespaces {
    /// The labels of a namespace.
    pub(crate) fn get(&self, name: &str) -> Option<&Labels> {
        self.labels.get(name)
    }

    /// Takes the labels of a namespace as they are now.
    pub(crate) fn set(&mut self, name: Text, labels: Option<Labels>) {
        let known = self.labels.get(&name);
        if known != labels.as_ref() {
            self.changes += 1;
            match labels {
                Some(labels) => self.labels.insert(name, labels),
                None => self.labels.remove(&name),
            };
        }
    }
}

/// Whether two states of a pod take the same of their node and look the same to others.
fn counts_alike(old: &Pod, new: &Pod) -> bool {
    old.node == new.node
        && old.terminating == new.terminating
        && Arc::ptr_eq(&old.spec, &new.spec)
        && Arc::ptr_eq(&old.labels, &new.labels)
        && old.taken == new.taken
}

fn tally<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: K, change: CountChange) {
    match (change, counts.entry(key)) {
        (CountChange::Added, entry) => *entry.or_insert(0) += 1,
        (CountChange::Removed, Entry::Occupied(mut entry)) if *entry.get() > 1 => *entry.get_mut() -= 1,
        (CountChange::Removed, Entry::Occupied(entry)) => drop(entry.remove()),
        (CountChange::Removed, Entry::Vacant(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn assumed_pod_uses_node_resources_until_it_is_removed() {
        let mut sample = TestCluster::default();
        sample.node("n", |_| {});
        let pod = sample.pod("p", |pod| {
            pod["spec"]["containers"][0]["resources"] = sample_cpu("2");
        });
        let pod = Arc::new(pod.on("n".into()));
        let cluster = &mut sample.cluster;
        cluster.assume(pod.clone());
        assert!(cluster.is_assumed(&pod.uid));
        cluster.put_pod(pod.clone());
        assert!(!cluster.is_assumed(&pod.uid), "the cluster has confirmed it");
        let slot = cluster.slot("n").unwrap();
        assert_eq!(cluster.info(slot).requested.cpu, 2000, "it is counted once");
        cluster.remove_pod(&pod.uid);
        assert_eq!(cluster.info(slot).requested.cpu, 0);
        assert!(cluster.info(slot).pods.is_empty());
    }

    #[test]
    fn moves_a_pod_that_another_scheduler_bound_elsewhere() {
        let mut sample = TestCluster::default();
        sample.node("a", |_| {});
        sample.node("b", |_| {});
        let pod = sample.pod("p", |_| {});
        sample.cluster.assume(Arc::new(pod.on("a".into())));
        sample.cluster.put_pod(Arc::new(pod.on("b".into())));
        let pods = |name| sample.cluster.info(sample.cluster.slot(name).unwrap()).pods.len();
        assert_eq!((pods("a"), pods("b")), (0, 1));
    }

    #[test]
    fn keeps_pods_that_arrive_before_their_node_or_outlive_it() {
        let mut sample = TestCluster::default();
        let pod = Arc::new(sample.pod("p", |_| {}).on("n".into()));
        sample.cluster.put_pod(pod.clone());
        assert!(sample.cluster.order().is_empty());
        sample.node("n", |_| {});
        let slot = sample.cluster.slot("n").unwrap();
        assert_eq!(sample.cluster.info(slot).pods.len(), 1);
        sample.cluster.remove_node("n");
        assert!(sample.cluster.order().is_empty() && sample.cluster.pod(&pod.uid).is_some());
        sample.cluster.remove_pod(&pod.uid);
        sample.node("m", |_| {});
        assert_eq!(sample.cluster.slot_count(), 1, "the slot is reused");
    }

    #[test]
    fn lists_nodes_round_robin_over_zones() {
        let mut sample = TestCluster::default();
        for (name, zone) in [
            ("a1", "a"),
            ("a2", "a"),
            ("a3", "a"),
            ("b1", "b"),
            ("c1", "c"),
            ("c2", "c"),
        ] {
            sample.node(name, |node| {
                node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone.into();
            });
        }
        let cluster = &sample.cluster;
        let names: Vec<_> = cluster
            .order()
            .iter()
            .map(|slot| &*cluster.info(*slot).name)
            .collect();
        assert_eq!(names, ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }

    fn sample_cpu(amount: &str) -> serde_json::Value {
        serde_json::json!({"requests": {"cpu": amount}})
    }
}
