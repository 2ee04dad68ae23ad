//! Which objects concern which nodes.
//!
//! Promise: the graph follows the caches as the index of roles does; asking costs the same however many pods there are.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use k3_api::strategy::Tree;

use super::{
    super::following::{Change, Following},
    references::{PodReferences, Reference, Sort, VolumeReferences},
};
use crate::cache::{Caches, Object};

/// Pods and volumes, and what they refer to.
pub(super) struct Graph {
    pods: Following,
    volumes: Following,
    owned: [(Owned, Following); 3],
    /// The node of each pod on one, by namespace and name, and what it refers to.
    on_nodes: HashMap<Place, PodReferences>,
    /// How many pods on which nodes refer to something.
    wanted: HashMap<Reference, HashMap<Box<str>, usize>>,
    /// Volumes with a claim, by name.
    claimed: HashMap<Box<str>, VolumeReferences>,
    /// The volumes that are mounted with a secret.
    by_secret: HashMap<Place, HashSet<Box<str>>>,
    /// The nodes of objects that are of one node, by namespace and name.
    nodes: HashMap<(Owned, Box<str>, Box<str>), Box<str>>,
}

/// A namespace and a name in it.
type Place = (Box<str>, Box<str>);

/// What is of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owned {
    Attachment,
    Slice,
    CertificateRequest,
}

// --- Graph ---

impl Graph {
    pub(super) fn new(caches: &Caches) -> Self {
        let following = |group, plural| Following::new(group, plural, caches);
        Graph {
            pods: following("", "pods"),
            volumes: following("", "persistentvolumes"),
            owned: [
                (
                    Owned::Attachment,
                    following("storage.k8s.io", "volumeattachments"),
                ),
                (Owned::Slice, following("resource.k8s.io", "resourceslices")),
                (
                    Owned::CertificateRequest,
                    following("certificates.k8s.io", "podcertificaterequests"),
                ),
            ],
            on_nodes: HashMap::new(),
            wanted: HashMap::new(),
            claimed: HashMap::new(),
            by_secret: HashMap::new(),
            nodes: HashMap::new(),
        }
    }

    pub(super) fn is_current(&self, caches: &Caches) -> bool {
        let owned = self.owned.iter().map(|(_, following)| following);
        let mut all = [&self.pods, &self.volumes].into_iter().chain(owned);
        all.all(|following| following.is_current(caches))
    }

    /// Takes in what is new.
    pub(super) fn follow(&mut self, caches: &Caches) {
        for change in self.pods.changes(caches) {
            self.change_pod(&change);
        }
        for change in self.volumes.changes(caches) {
            self.change_volume(&change);
        }
        for (owned, following) in &mut self.owned {
            for (before, after) in following.changes(caches) {
                if let Some(object) = before {
                    self.nodes.remove(&place(*owned, &object));
                }
                if let Some(object) = after {
                    let tree = object.tree();
                    let node = tree.at("spec").text("nodeName");
                    if !node.is_empty() {
                        self.nodes.insert(place(*owned, &object), node.into());
                    }
                }
            }
        }
    }

    fn change_pod(&mut self, (before, after): &Change) {
        let Some(object) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let place = (object.namespace().into(), object.name().into());
        let new = after.as_ref().and_then(|object| PodReferences::read(object));
        // Most changes of a pod are of its status.
        if new.as_ref() == self.on_nodes.get(&place) {
            return;
        }
        if let Some(old) = self.on_nodes.remove(&place) {
            for reference in old.all {
                let Some(nodes) = self.wanted.get_mut(&reference) else {
                    continue;
                };
                if let Some(count) = nodes.get_mut(&old.node) {
                    *count -= 1;
                    if *count == 0 {
                        nodes.remove(&old.node);
                    }
                }
                if nodes.is_empty() {
                    self.wanted.remove(&reference);
                }
            }
        }
        if let Some(new) = new {
            for reference in &new.all {
                let nodes = self.wanted.entry(reference.clone()).or_default();
                *nodes.entry(new.node.clone()).or_default() += 1;
            }
            self.on_nodes.insert(place, new);
        }
    }

    fn change_volume(&mut self, (before, after): &Change) {
        if let Some(object) = before
            && let Some(old) = self.claimed.remove(object.name())
        {
            for secret in old.secrets {
                if let Some(volumes) = self.by_secret.get_mut(&secret) {
                    volumes.remove(object.name());
                    if volumes.is_empty() {
                        self.by_secret.remove(&secret);
                    }
                }
            }
        }
        if let Some(object) = after
            && let Some(new) = VolumeReferences::read(object)
        {
            for secret in &new.secrets {
                let volumes = self.by_secret.entry(secret.clone()).or_default();
                volumes.insert(object.name().into());
            }
            self.claimed.insert(object.name().into(), new);
        }
    }

    /// Whether a pod on a node refers to something, or a volume of such a pod does.
    pub(super) fn wants(&self, node: &str, sort: Sort, namespace: &str, name: &str) -> bool {
        if self.refers(node, sort, namespace, name) {
            return true;
        }
        let volumes = match sort {
            Sort::Secret => self.by_secret.get(&(namespace.into(), name.into())),
            _ => None,
        };
        let mut volumes = volumes.into_iter().flatten();
        volumes.any(|volume| self.mounts(node, volume))
    }

    fn refers(&self, node: &str, sort: Sort, namespace: &str, name: &str) -> bool {
        let nodes = self.wanted.get(&(sort, namespace.into(), name.into()));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Whether a pod on a node has the claim of a volume.
    pub(super) fn mounts(&self, node: &str, volume: &str) -> bool {
        let volume = self.claimed.get(volume);
        volume.is_some_and(|volume| self.refers(node, Sort::Claim, &volume.claim.0, &volume.claim.1))
    }

    /// Whether a pod is on a node.
    pub(super) fn runs(&self, node: &str, namespace: &str, name: &str) -> bool {
        let pod = self.on_nodes.get(&(namespace.into(), name.into()));
        pod.is_some_and(|pod| *pod.node == *node)
    }

    /// Whether something is of a node.
    pub(super) fn owns(&self, node: &str, owned: Owned, namespace: &str, name: &str) -> bool {
        let own = self.nodes.get(&(owned, namespace.into(), name.into()));
        own.is_some_and(|own| **own == *node)
    }
}

fn place(owned: Owned, object: &Object) -> (Owned, Box<str>, Box<str>) {
    (owned, object.namespace().into(), object.name().into())
}
