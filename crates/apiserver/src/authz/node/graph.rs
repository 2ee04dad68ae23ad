//! The node authorizer's graph: which objects are referenced by pods on which nodes.
//!
//! Promise: the graph follows the caches as the index of roles does; asking costs the same however many pods there are.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use k3_api::strategy::Tree;

use super::{
    super::cache_follower::{CacheFollower, ObjectChange},
    references::{NodeReference, PodReferences, ReferenceKind, VolumeReferences},
};
use crate::cache::{CachedObject, WatchCaches};

/// Pods and volumes, and what they refer to.
// upstream: plugin/pkg/auth/authorizer/node/graph.go Graph
pub(super) struct ReferenceGraph {
    /// Whether it has all changes that were taken from the followers; not while an update runs.
    is_complete: bool,
    pods: CacheFollower,
    volumes: CacheFollower,
    owned: [(NodeOwnedKind, CacheFollower); 3],
    /// The node of each pod on one, by namespace and name, and what it refers to.
    on_nodes: HashMap<NamespacedName, PodReferences>,
    /// How many pods on which nodes refer to something.
    wanted: HashMap<NodeReference, HashMap<Box<str>, usize>>,
    /// Volumes with a claim, by name.
    claimed: HashMap<Box<str>, VolumeReferences>,
    /// The volumes that are mounted with a secret.
    by_secret: HashMap<NamespacedName, HashSet<Box<str>>>,
    /// The nodes of objects that are of one node, by namespace and name.
    nodes: HashMap<(NodeOwnedKind, Box<str>, Box<str>), Box<str>>,
}

/// A namespace and a name in it.
type NamespacedName = (Box<str>, Box<str>);

/// Kinds whose objects name the node that they belong to: VolumeAttachment, ResourceSlice, PodCertificateRequest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NodeOwnedKind {
    Attachment,
    Slice,
    CertificateRequest,
}

// --- ReferenceGraph ---

impl ReferenceGraph {
    pub(super) fn new(caches: &WatchCaches) -> Self {
        let following = |group, plural| CacheFollower::new(group, plural, caches);
        ReferenceGraph {
            is_complete: true,
            pods: following("", "pods"),
            volumes: following("", "persistentvolumes"),
            owned: [
                (
                    NodeOwnedKind::Attachment,
                    following("storage.k8s.io", "volumeattachments"),
                ),
                (
                    NodeOwnedKind::Slice,
                    following("resource.k8s.io", "resourceslices"),
                ),
                (
                    NodeOwnedKind::CertificateRequest,
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

    pub(super) fn is_current(&self, caches: &WatchCaches) -> bool {
        let owned = self.owned.iter().map(|(_, following)| following);
        let mut all = [&self.pods, &self.volumes].into_iter().chain(owned);
        self.is_complete && all.all(|following| following.is_current(caches))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Updates the graph with changed pods and volumes.
    pub(super) fn follow(&mut self, caches: &WatchCaches) {
        if !self.is_complete {
            *self = ReferenceGraph::new(caches);
        }
        self.is_complete = false;
        for change in self.pods.changes(caches) {
            self.change_pod(&change);
        }
        for change in self.volumes.changes(caches) {
            self.change_volume(&change);
        }
        for (owned, following) in &mut self.owned {
            for (before, after) in following.changes(caches) {
                if let Some(object) = before {
                    self.nodes.remove(&owned_key(*owned, &object));
                }
                if let Some(object) = after {
                    let tree = object.tree();
                    let node = tree.at("spec").text("nodeName");
                    if !node.is_empty() {
                        self.nodes.insert(owned_key(*owned, &object), node.into());
                    }
                }
            }
        }
        self.is_complete = true;
    }

    fn change_pod(&mut self, (before, after): &ObjectChange) {
        let Some(object) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let owned_key = (object.namespace().into(), object.name().into());
        let new = after.as_ref().and_then(|object| PodReferences::read(object));
        // Most changes of a pod are of its status.
        if new.as_ref() == self.on_nodes.get(&owned_key) {
            return;
        }
        if let Some(old) = self.on_nodes.remove(&owned_key) {
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
            self.on_nodes.insert(owned_key, new);
        }
    }

    fn change_volume(&mut self, (before, after): &ObjectChange) {
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

    /// Whether a pod on the node, or a volume of such a pod, references the object.
    pub(super) fn wants(&self, node: &str, sort: ReferenceKind, namespace: &str, name: &str) -> bool {
        if self.refers(node, sort, namespace, name) {
            return true;
        }
        let volumes = match sort {
            ReferenceKind::Secret => self.by_secret.get(&(namespace.into(), name.into())),
            _ => None,
        };
        let mut volumes = volumes.into_iter().flatten();
        volumes.any(|volume| self.mounts(node, volume))
    }

    fn refers(&self, node: &str, sort: ReferenceKind, namespace: &str, name: &str) -> bool {
        let nodes = self.wanted.get(&(sort, namespace.into(), name.into()));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    /// Whether a pod on a node has the claim of a volume.
    pub(super) fn mounts(&self, node: &str, volume: &str) -> bool {
        let volume = self.claimed.get(volume);
        volume.is_some_and(|volume| self.refers(node, ReferenceKind::Claim, &volume.claim.0, &volume.claim.1))
    }

    /// Whether a pod is on a node.
    pub(super) fn runs(&self, node: &str, namespace: &str, name: &str) -> bool {
        let pod = self.on_nodes.get(&(namespace.into(), name.into()));
        pod.is_some_and(|pod| *pod.node == *node)
    }

    /// Whether something is of a node.
    pub(super) fn owns(&self, node: &str, owned: NodeOwnedKind, namespace: &str, name: &str) -> bool {
        let own = self.nodes.get(&(owned, namespace.into(), name.into()));
        own.is_some_and(|own| **own == *node)
    }
}

fn owned_key(owned: NodeOwnedKind, object: &CachedObject) -> (NodeOwnedKind, Box<str>, Box<str>) {
    (owned, object.namespace().into(), object.name().into())
}
