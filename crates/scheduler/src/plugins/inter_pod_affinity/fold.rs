//! Which pods a pod means, and which mean it, by place.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use hashbrown::HashMap;

use crate::{
    cluster::Cluster,
    fold::Fold,
    labels::Labels,
    object::{Pod, Spec, Term},
    pool::Text,
};

/// How much a pod that must be near this one makes a place better.
const HARD_WEIGHT: i64 = 1;

/// What is counted: a pod's labels, by which others mean it, and what it says itself.
#[derive(Clone, Debug)]
pub(crate) struct AffinityKey {
    namespace: Text,
    labels: Arc<Labels>,
    spec: Arc<Spec>,
}

/// What is counted in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Pods that all terms of nearness mean, once for each term.
    pub near: i64,
    /// Pods that a term of distance means.
    pub away: i64,
    /// Terms of distance of pods there that mean this one.
    pub refused: i64,
    /// How good it is to be there.
    pub score: i64,
}

/// The counts.
#[derive(Debug)]
pub(crate) struct AffinityFold {
    key: AffinityKey,
    topologies: Vec<Topology>,
    /// What each node brings, by its place.
    given: Vec<Vec<(usize, usize, Tally)>>,
    total: Tally,
    scored: i64,
    asks_namespaces: bool,
    namespaces: u64,
}

/// A label of nodes that makes places.
#[derive(Debug)]
struct Topology {
    label: Text,
    known: HashMap<Text, usize>,
    tallies: Vec<Tally>,
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
        (&spec.near, &spec.away, &spec.rather_near, &spec.rather_away)
    }
}

impl PartialEq for AffinityKey {
    fn eq(&self, other: &Self) -> bool {
        let same_spec = || Arc::ptr_eq(&self.spec, &other.spec);
        let (mine, theirs) = (&*self.spec, &*other.spec);
        self.namespace == other.namespace
            && self.labels == other.labels
            && (same_spec()
                || (mine.near == theirs.near
                    && mine.away == theirs.away
                    && mine.rather_near == theirs.rather_near
                    && mine.rather_away == theirs.rather_away))
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

impl Fold for AffinityFold {
    type Key = AffinityKey;

    fn empty(key: AffinityKey) -> Self {
        AffinityFold {
            key,
            topologies: Vec::new(),
            given: Vec::new(),
            total: Tally::default(),
            scored: 0,
            asks_namespaces: false,
            namespaces: u64::MAX,
        }
    }

    fn key(&self) -> &AffinityKey {
        &self.key
    }

    fn is_stale(&self, cluster: &Cluster) -> bool {
        self.asks_namespaces && self.namespaces != cluster.namespaces.changes
    }

    fn refresh(&mut self, slot: usize, cluster: &Cluster) {
        self.namespaces = cluster.namespaces.changes;
        if self.given.len() <= slot {
            self.given.resize_with(slot + 1, Vec::new);
        }
        for (topology, place, tally) in std::mem::take(&mut self.given[slot]) {
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
        let asks = self.key.spec.social;
        for pod in if asks { &info.pods } else { &info.social } {
            self.meet(pod, slot, labels, cluster);
        }
    }
}

impl AffinityFold {
    /// Everything together.
    pub(crate) fn total(&self) -> Tally {
        self.total
    }

    /// Whether any place is better or worse than others.
    pub(crate) fn is_scored(&self) -> bool {
        self.scored > 0
    }

    /// What is counted in the place of a node, by the label that makes places.
    pub(crate) fn at(&self, slot: usize, label: &Text) -> Option<Tally> {
        let topology = self.topologies.iter().find(|topology| topology.label == *label)?;
        topology.at(slot)
    }

    /// What is counted in all places of a node.
    pub(crate) fn all(&self, slot: usize) -> impl Iterator<Item = Tally> {
        self.topologies
            .iter()
            .filter_map(move |topology| topology.at(slot))
    }

    fn meet(&mut self, pod: &Pod, slot: usize, labels: &Labels, cluster: &Cluster) {
        let key = self.key.clone();
        let own = &key.spec;
        let theirs = cluster.namespaces.get(&pod.namespace);
        let ours = cluster.namespaces.get(&key.namespace);
        let mut asks = false;
        let mut means = |term: &Term| {
            asks |= term.asks_namespaces();
            term.matches(&pod.labels, &pod.namespace, theirs)
        };
        let mut found: Vec<(Text, Tally)> = Vec::new();
        let mut add = |term: &Term, tally: Tally| found.push((term.topology.clone(), tally));
        let none = Tally::default();
        if !own.near.is_empty() && own.near.iter().all(&mut means) {
            own.near
                .iter()
                .for_each(|term| add(term, Tally { near: 1, ..none }));
        }
        for term in own.away.iter().filter(|term| means(term)) {
            add(term, Tally { away: 1, ..none });
        }
        for (sign, terms) in [(1, &own.rather_near), (-1, &own.rather_away)] {
            for (weight, term) in terms.iter().filter(|(_, term)| means(term)) {
                add(
                    term,
                    Tally {
                        score: sign * weight,
                        ..none
                    },
                );
            }
        }
        let mut meant = |term: &Term| {
            asks |= term.asks_namespaces();
            term.matches(&key.labels, &key.namespace, ours)
        };
        for term in pod.spec.away.iter().filter(|term| meant(term)) {
            add(term, Tally { refused: 1, ..none });
        }
        for term in pod.spec.near.iter().filter(|term| meant(term)) {
            add(
                term,
                Tally {
                    score: HARD_WEIGHT,
                    ..none
                },
            );
        }
        for (sign, terms) in [(1, &pod.spec.rather_near), (-1, &pod.spec.rather_away)] {
            for (weight, term) in terms.iter().filter(|(_, term)| meant(term)) {
                add(
                    term,
                    Tally {
                        score: sign * weight,
                        ..none
                    },
                );
            }
        }
        self.asks_namespaces |= asks;
        for (label, tally) in found {
            let Some(value) = labels.get(&label) else { continue };
            let topology = self.topology(label, cluster);
            let place = self.topologies[topology].of(value);
            self.count(topology, place, tally, 1);
            self.given[slot].push((topology, place, tally));
        }
    }

    fn count(&mut self, topology: usize, place: usize, tally: Tally, sign: i64) {
        for sum in [&mut self.topologies[topology].tallies[place], &mut self.total] {
            sum.near += sign * tally.near;
            sum.away += sign * tally.away;
            sum.refused += sign * tally.refused;
            sum.score += sign * tally.score;
        }
        if tally.score != 0 {
            self.scored += sign;
        }
    }

    /// The label, which is looked up on all nodes when it is new.
    fn topology(&mut self, label: Text, cluster: &Cluster) -> usize {
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
        for slot in 0..cluster.places() {
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
        self.tallies.push(Tally::default());
        self.known.insert(value.clone(), self.tallies.len() - 1);
        self.tallies.len() - 1
    }

    fn at(&self, slot: usize) -> Option<Tally> {
        let place = (*self.places.get(slot)?)?;
        Some(self.tallies[place])
    }
}
