//! Which pods a pod means, and which mean it, by place.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use hashbrown::HashMap;

use crate::{
    cache::SchedulerCache,
    incremental::IncrementalState,
    interner::Text,
    labels::Labels,
    object::{AffinityTerm, Pod, Spec},
};

/// How much a pod that must be near this one makes a place better.
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/scoring.go processExistingPod
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;

/// What is counted: a pod's labels, by which others mean it, and what it says itself.
#[derive(Clone, Debug)]
pub(crate) struct AffinityKey {
    namespace: Text,
    labels: Arc<Labels>,
    spec: Arc<Spec>,
}

/// What is counted in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go topologyToMatchedTermCount
pub(crate) struct TermCounts {
    /// Pods that all terms of nearness mean, once for each term.
    pub affinity: i64,
    /// Pods that a term of distance means.
    pub anti_affinity: i64,
    /// Terms of distance of pods there that mean this one.
    pub existing_anti_affinity: i64,
    /// How good it is to be there.
    pub score: i64,
}

/// The counts.
#[derive(Debug)]
pub(crate) struct AffinityCounts {
    key: AffinityKey,
    topologies: Vec<Topology>,
    /// What each node brings, by its place.
    contributions: Vec<Vec<(usize, usize, TermCounts)>>,
    total: TermCounts,
    scored: i64,
    has_namespace_selector: bool,
    namespaces: u64,
}

/// A label of nodes that makes places.
#[derive(Debug)]
struct Topology {
    label: Text,
    known: HashMap<Text, usize>,
    tallies: Vec<TermCounts>,
    /// The place of each node.
    places: Vec<Option<usize>>,
}

impl AffinityKey {
    /// Of a pod.
    pub(crate) fn new(pod: &Pod) -> Self {
        AffinityKey {
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            spec: pod.spec.clone(),
        }
    }

    fn says(&self) -> impl PartialEq + Hash + '_ {
        let spec = &*self.spec;
        (
            &spec.required_affinity_terms,
            &spec.required_anti_affinity_terms,
            &spec.preferred_affinity_terms,
            &spec.preferred_anti_affinity_terms,
        )
    }
}

impl PartialEq for AffinityKey {
    fn eq(&self, other: &Self) -> bool {
        let same_spec = || Arc::ptr_eq(&self.spec, &other.spec);
        let (mine, theirs) = (&*self.spec, &*other.spec);
        self.namespace == other.namespace
            && self.labels == other.labels
            && (same_spec()
                || (mine.required_affinity_terms == theirs.required_affinity_terms
                    && mine.required_anti_affinity_terms == theirs.required_anti_affinity_terms
                    && mine.preferred_affinity_terms == theirs.preferred_affinity_terms
                    && mine.preferred_anti_affinity_terms == theirs.preferred_anti_affinity_terms))
    }
}

impl Eq for AffinityKey {}

impl Hash for AffinityKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace.hash(state);
        self.labels.hash(state);
        self.says().hash(state);
    }
}

impl IncrementalState for AffinityCounts {
    type Key = AffinityKey;

    fn empty(key: AffinityKey) -> Self {
        AffinityCounts {
            key,
            topologies: Vec::new(),
            contributions: Vec::new(),
            total: TermCounts::default(),
            scored: 0,
            has_namespace_selector: false,
            namespaces: u64::MAX,
        }
    }

    fn key(&self) -> &AffinityKey {
        &self.key
    }

    fn is_stale(&self, cluster: &SchedulerCache) -> bool {
        self.has_namespace_selector && self.namespaces != cluster.namespaces.changes
    }

    fn refresh(&mut self, slot: usize, cluster: &SchedulerCache) {
        self.namespaces = cluster.namespaces.changes;
        if self.contributions.len() <= slot {
            self.contributions.resize_with(slot + 1, Vec::new);
        }
        for (topology, place, tally) in std::mem::take(&mut self.contributions[slot]) {
            self.count(topology, place, tally, -1);
        }
        let info = cluster.info(slot);
        let labels = info.node.as_deref().map(|node| &node.labels);
        for topology in &mut self.topologies {
            topology.look(slot, labels);
        }
        let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
            return;
        };
        let asks = self.key.spec.has_pod_affinity;
        for pod in if asks {
            &info.pods
        } else {
            &info.pods_with_affinity
        } {
            self.count_pod(pod, slot, labels, cluster);
        }
    }
}

impl AffinityCounts {
    /// Everything together.
    pub(crate) fn total(&self) -> TermCounts {
        self.total
    }

    /// Whether any place is better or worse than others.
    pub(crate) fn is_scored(&self) -> bool {
        self.scored > 0
    }

    /// What is counted in the place of a node, by the label that makes places.
    pub(crate) fn at(&self, slot: usize, label: &Text) -> Option<TermCounts> {
        let topology = self.topologies.iter().find(|topology| topology.label == *label)?;
        topology.at(slot)
    }

    /// What is counted in all places of a node.
    pub(crate) fn all(&self, slot: usize) -> impl Iterator<Item = TermCounts> {
        self.topologies
            .iter()
            .filter_map(move |topology| topology.at(slot))
    }

    // upstream: pkg/scheduler/framework/plugins/interpodaffinity/filtering.go getExistingAntiAffinityCounts, getIncomingAffinityAntiAffinityCounts
    fn count_pod(&mut self, pod: &Pod, slot: usize, labels: &Labels, cluster: &SchedulerCache) {
        let key = self.key.clone();
        let own = &key.spec;
        let theirs = cluster.namespaces.get(&pod.namespace);
        let ours = cluster.namespaces.get(&key.namespace);
        let mut asks = false;
        let mut means = |term: &AffinityTerm| {
            asks |= term.has_namespace_selector();
            term.matches(&pod.labels, &pod.namespace, theirs)
        };
        let mut found: Vec<(Text, TermCounts)> = Vec::new();
        let mut add = |term: &AffinityTerm, tally: TermCounts| found.push((term.topology.clone(), tally));
        let none = TermCounts::default();
        if !own.required_affinity_terms.is_empty() && own.required_affinity_terms.iter().all(&mut means) {
            own.required_affinity_terms
                .iter()
                .for_each(|term| add(term, TermCounts { affinity: 1, ..none }));
        }
        for term in own.required_anti_affinity_terms.iter().filter(|term| means(term)) {
            add(
                term,
                TermCounts {
                    anti_affinity: 1,
                    ..none
                },
            );
        }
        for (sign, terms) in [
            (1, &own.preferred_affinity_terms),
            (-1, &own.preferred_anti_affinity_terms),
        ] {
            for (weight, term) in terms.iter().filter(|(_, term)| means(term)) {
                add(
                    term,
                    TermCounts {
                        score: sign * weight,
                        ..none
                    },
                );
            }
        }
        let mut meant = |term: &AffinityTerm| {
            asks |= term.has_namespace_selector();
            term.matches(&key.labels, &key.namespace, ours)
        };
        for term in pod
            .spec
            .required_anti_affinity_terms
            .iter()
            .filter(|term| meant(term))
        {
            add(
                term,
                TermCounts {
                    existing_anti_affinity: 1,
                    ..none
                },
            );
        }
        for term in pod.spec.required_affinity_terms.iter().filter(|term| meant(term)) {
            add(
                term,
                TermCounts {
                    score: HARD_POD_AFFINITY_WEIGHT,
                    ..none
                },
            );
        }
        for (sign, terms) in [
            (1, &pod.spec.preferred_affinity_terms),
            (-1, &pod.spec.preferred_anti_affinity_terms),
        ] {
            for (weight, term) in terms.iter().filter(|(_, term)| meant(term)) {
                add(
                    term,
                    TermCounts {
                        score: sign * weight,
                        ..none
                    },
                );
            }
        }
        self.has_namespace_selector |= asks;
        for (label, tally) in found {
            let Some(value) = labels.get(&label) else { continue };
            let topology = self.topology(label, cluster);
            let place = self.topologies[topology].of(value);
            self.count(topology, place, tally, 1);
            self.contributions[slot].push((topology, place, tally));
        }
    }

    fn count(&mut self, topology: usize, place: usize, tally: TermCounts, sign: i64) {
        for sum in [&mut self.topologies[topology].tallies[place], &mut self.total] {
            sum.affinity += sign * tally.affinity;
            sum.anti_affinity += sign * tally.anti_affinity;
            sum.existing_anti_affinity += sign * tally.existing_anti_affinity;
            sum.score += sign * tally.score;
        }
        if tally.score != 0 {
            self.scored += sign;
        }
    }

    /// The label, which is looked up on all nodes when it is new.
    fn topology(&mut self, label: Text, cluster: &SchedulerCache) -> usize {
        if let Some(known) = self
            .topologies
            .iter()
            .position(|topology| topology.label == label)
        {
            return known;
        }
        let mut topology = Topology {
            label,
            known: HashMap::new(),
            tallies: Vec::new(),
            places: Vec::new(),
        };
        for slot in 0..cluster.slot_count() {
            topology.look(slot, cluster.node(slot).map(|node| &node.labels));
        }
        self.topologies.push(topology);
        self.topologies.len() - 1
    }
}

impl Topology {
    fn look(&mut self, slot: usize, labels: Option<&Labels>) {
        if self.places.len() <= slot {
            self.places.resize(slot + 1, None);
        }
        let value = labels.and_then(|labels| labels.get(&self.label));
        self.places[slot] = value.map(|value| self.of(value));
    }

    fn of(&mut self, value: &Text) -> usize {
        if let Some(known) = self.known.get(value) {
            return *known;
        }
        self.tallies.push(TermCounts::default());
        self.known.insert(value.clone(), self.tallies.len() - 1);
        self.tallies.len() - 1
    }

    fn at(&self, slot: usize) -> Option<TermCounts> {
        let place = (*self.places.get(slot)?)?;
        Some(self.tallies[place])
    }
}
