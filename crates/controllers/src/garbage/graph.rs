//! The dependency graph of owners and dependents, built from events.
//!
//! The graph only selects objects to look at. What is done with an object is decided after reading it and its owners from the
//! server, so that a late event or a wrong owner reference costs a request, and never an object.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use k3_workloads::{Interner, OwnerReference, SharedList};
use kubecontroller::resource::Resource;

use super::dependent::{Dependent, FOREGROUND, ORPHAN};

pub(super) type Uid = Arc<str>;

/// A work item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum GraphWorkItem {
    /// attemptToDelete: delete the object if its owners are absent; in foreground deletion, check its blocking dependents.
    AttemptToDelete(Uid),
    /// attemptToOrphan: remove the owner references of its dependents, then its orphan finalizer.
    AttemptToOrphan(Uid),
    /// Record an event: it refers to an owner in another namespace.
    ReportInvalidNamespaceOwnerRef { dependent: Uid, owner: Uid },
}

/// Kind and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectRef {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// An object in the graph.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "five facts that do not depend on each other"
)]
pub(super) struct GraphNode {
    pub(super) object_ref: ObjectRef,
    /// Whether it was observed in an event. A virtual node is known only from references, which may be wrong.
    pub(super) is_observed: bool,
    /// Whether it was looked up and not found. Later references to it have to be checked: it is not looked up again.
    is_absent: bool,
    pub(super) is_being_deleted: bool,
    /// deletingDependents: it waits in foreground deletion.
    pub(super) deleting_dependents: bool,
    /// Whether its dependents have to be orphaned first.
    orphans_dependents: bool,
    owners: SharedList<OwnerReference>,
    dependents: HashSet<Uid>,
}

/// All observed objects: any of them may become an owner or a dependent.
#[derive(Default)]
pub(super) struct DependencyGraph {
    nodes: HashMap<Uid, GraphNode>,
    /// Interned kinds and namespaces, which are few.
    texts: Interner<str>,
}

// --- DependencyGraph ---

impl DependencyGraph {
    /// An object was added or updated. Returns work items.
    // upstream: pkg/controller/garbagecollector/graph_builder.go processGraphChanges, insertNode, processTransitions
    pub(super) fn observe(&mut self, resource: &Resource, object: &Dependent) -> Vec<GraphWorkItem> {
        let mut work = Vec::new();
        let uid: Uid = Arc::from(&*object.metadata.uid);
        let object_ref = ObjectRef {
            api_version: self.texts.share(resource.api_version()),
            kind: self.texts.share(&*resource.kind),
            namespace: self.texts.share(&*object.metadata.namespace),
            name: Arc::from(&*object.metadata.name),
        };
        let mut node = self
            .nodes
            .remove(&uid)
            .unwrap_or_else(|| GraphNode::new(object_ref.clone()));
        node.object_ref = object_ref;
        node.is_absent = false;
        if !std::mem::replace(&mut node.is_observed, true) {
            self.check_dependents_with_wrong_coordinates(&uid, &node, &mut work);
        }
        let before = std::mem::replace(&mut node.owners, object.metadata.owner_references.clone());
        let waited = node.deleting_dependents;
        let orphaned = node.orphans_dependents;
        node.is_being_deleted = object.is_terminating();
        node.deleting_dependents = node.is_being_deleted && object.has(FOREGROUND);
        node.orphans_dependents = node.is_being_deleted && object.has(ORPHAN);
        let owners = node.owners.clone();
        let namespace = Arc::clone(&node.object_ref.namespace);
        if node.deleting_dependents && !waited {
            work.extend(
                node.dependents
                    .iter()
                    .cloned()
                    .map(GraphWorkItem::AttemptToDelete),
            );
            work.push(GraphWorkItem::AttemptToDelete(Arc::clone(&uid)));
        }
        if node.orphans_dependents && !orphaned {
            work.push(GraphWorkItem::AttemptToOrphan(Arc::clone(&uid)));
        }
        self.nodes.insert(Arc::clone(&uid), node);
        // By UID in a map: an object may have very many owners.
        let known: HashSet<&str> = before.iter().map(|old| &*old.uid).collect();
        for owner in &owners {
            if !known.contains(&*owner.uid) {
                self.add_dependent_to_owner(&uid, owner, &namespace, &mut work);
            }
        }
        let mut by_uid: HashMap<&str, &OwnerReference> = HashMap::with_capacity(owners.len());
        for owner in &owners {
            by_uid.entry(&owner.uid).or_insert(owner);
        }
        for old in &before {
            let new = by_uid.get(&*old.uid).copied();
            if new.is_none() {
                self.remove_dependent_from_owner(&uid, old);
            }
            // An owner in foreground deletion may have waited for this one.
            let blocks = |reference: &OwnerReference| reference.block_owner_deletion;
            if blocks(old) && !new.is_some_and(blocks) {
                self.check_unblocked_owner(&old.uid, &mut work);
            }
        }
        work
    }

    /// An object was deleted, or does not exist. Returns work items.
    // upstream: pkg/controller/garbagecollector/graph_builder.go processGraphChanges, removeNode
    pub(super) fn remove(&mut self, uid: &str) -> Vec<GraphWorkItem> {
        let Some(node) = self.nodes.remove(uid) else {
            return Vec::new();
        };
        let mut work: Vec<GraphWorkItem> = node
            .dependents
            .iter()
            .cloned()
            .map(GraphWorkItem::AttemptToDelete)
            .collect();
        if !node.dependents.is_empty() {
            // Its dependents still refer to it: if it is created again, they are found.
            let left = GraphNode {
                is_observed: false,
                is_absent: true,
                is_being_deleted: false,
                deleting_dependents: false,
                orphans_dependents: false,
                owners: SharedList::default(),
                ..node.clone()
            };
            self.nodes.insert(Arc::from(uid), left);
        }
        for owner in &node.owners {
            self.remove_dependent_from_owner(uid, owner);
            self.check_unblocked_owner(&owner.uid, &mut work);
        }
        work
    }

    pub(super) fn get(&self, uid: &str) -> Option<&GraphNode> {
        self.nodes.get(uid)
    }

    /// Objects that refer to it as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(Uid, GraphNode)> {
        let Some(node) = self.nodes.get(uid) else {
            return Vec::new();
        };
        let known = |dependent: &Uid| Some((Arc::clone(dependent), self.nodes.get(dependent)?.clone()));
        node.dependents.iter().filter_map(known).collect()
    }

    /// Dependents that block its foreground deletion.
    // upstream: pkg/controller/garbagecollector/graph.go blockingDependents
    pub(super) fn blocking_dependents(&self, uid: &str) -> Vec<(Uid, GraphNode)> {
        let mut dependents = self.dependents(uid);
        dependents.retain(|(_, node)| node.blocks(uid));
        dependents
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }

    // upstream: pkg/controller/garbagecollector/graph_builder.go addDependentToOwners
    fn add_dependent_to_owner(
        &mut self,
        uid: &Uid,
        owner: &OwnerReference,
        namespace: &Arc<str>,
        work: &mut Vec<GraphWorkItem>,
    ) {
        let reported: Uid = Arc::from(&*owner.uid);
        let node = self.nodes.entry(Arc::clone(&reported)).or_insert_with(|| {
            // A virtual node: not observed yet, and possibly absent.
            work.push(GraphWorkItem::AttemptToDelete(Arc::clone(&reported)));
            GraphNode::new(ObjectRef {
                api_version: self.texts.share(&*owner.api_version),
                kind: self.texts.share(&*owner.kind),
                namespace: Arc::clone(namespace),
                name: Arc::from(&*owner.name),
            })
        });
        node.dependents.insert(Arc::clone(uid));
        if node.is_observed && !node.object_ref.matches_reference(owner, namespace) {
            node.check_coordinates(&reported, uid, namespace, work);
        }
        if node.deleting_dependents || node.is_absent {
            work.push(GraphWorkItem::AttemptToDelete(Arc::clone(uid)));
        }
    }

    /// Removes a dependent from an owner.
    // upstream: pkg/controller/garbagecollector/graph_builder.go removeDependentFromOwners
    fn remove_dependent_from_owner(&mut self, uid: &str, owner: &OwnerReference) {
        if let Some(node) = self.nodes.get_mut(&*owner.uid) {
            node.dependents.remove(uid);
            if !node.is_observed && node.dependents.is_empty() {
                self.nodes.remove(&*owner.uid);
            }
        }
    }

    /// Dependents that referred to it before it was observed may have wrong coordinates.
    // upstream: pkg/controller/garbagecollector/graph_builder.go partitionDependents, getAlternateOwnerIdentity
    fn check_dependents_with_wrong_coordinates(
        &self,
        uid: &Uid,
        node: &GraphNode,
        work: &mut Vec<GraphWorkItem>,
    ) {
        for dependent in &node.dependents {
            let Some(known) = self.nodes.get(dependent) else {
                continue;
            };
            let namespace = &known.object_ref.namespace;
            if known
                .classify_owner(uid)
                .is_some_and(|owner| !node.object_ref.matches_reference(owner, namespace))
            {
                node.check_coordinates(uid, dependent, namespace, work);
            }
        }
    }

    // upstream: pkg/controller/garbagecollector/graph_builder.go addUnblockedOwnersToDeleteQueue
    fn check_unblocked_owner(&self, uid: &str, work: &mut Vec<GraphWorkItem>) {
        if self.nodes.get(uid).is_some_and(|node| node.deleting_dependents) {
            work.push(GraphWorkItem::AttemptToDelete(Arc::from(uid)));
        }
    }
}

// --- GraphNode ---

impl GraphNode {
    fn new(object_ref: ObjectRef) -> Self {
        GraphNode {
            object_ref,
            is_observed: false,
            is_absent: false,
            is_being_deleted: false,
            deleting_dependents: false,
            orphans_dependents: false,
            owners: SharedList::default(),
            dependents: HashSet::new(),
        }
    }

    /// Its reference to an owner, if it has one.
    pub(super) fn classify_owner(&self, uid: &str) -> Option<&OwnerReference> {
        self.owners.iter().find(|owner| *owner.uid == *uid)
    }

    /// Work items for a reference whose coordinates do not match the observed owner: the dependent has to be checked.
    fn check_coordinates(&self, uid: &Uid, dependent: &Uid, namespace: &str, work: &mut Vec<GraphWorkItem>) {
        work.push(GraphWorkItem::AttemptToDelete(Arc::clone(dependent)));
        if !self.object_ref.namespace.is_empty() && *self.object_ref.namespace != *namespace {
            work.push(GraphWorkItem::ReportInvalidNamespaceOwnerRef {
                dependent: Arc::clone(dependent),
                owner: Arc::clone(uid),
            });
        }
    }

    fn blocks(&self, owner: &str) -> bool {
        self.classify_owner(owner)
            .is_some_and(|reference| reference.block_owner_deletion)
    }
}

// --- ObjectRef ---

impl ObjectRef {
    /// Whether a reference from a namespace matches. Versions are ignored: objects are served in several.
    // upstream: pkg/controller/garbagecollector/graph.go ownerReferenceMatchesCoordinates
    fn matches_reference(&self, owner: &OwnerReference, namespace: &str) -> bool {
        let group = |api_version: &str| {
            api_version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned()
        };
        *self.name == *owner.name
            && *self.kind == *owner.kind
            && group(&self.api_version) == group(&owner.api_version)
            && (self.namespace.is_empty() || *self.namespace == *namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::CONFIG_MAPS;

    /// An object: `owners` are `uid` or `uid!` if it blocks; `state` are finalizers, and terminating if there are any.
    fn object(uid: &str, owners: &[&str], state: &[&str]) -> Dependent {
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| {
                let name = owner.trim_end_matches('!');
                serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name,
                    "blockOwnerDeletion": owner.ends_with('!')})
            })
            .collect();
        let terminating = (!state.is_empty()).then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(
            serde_json::json!({"metadata": {"name": uid, "namespace": "n", "uid": uid,
            "ownerReferences": owners, "finalizers": state, "deletionTimestamp": terminating}}),
        )
        .unwrap()
    }

    fn attempt_to_delete(uids: &[&str]) -> Vec<GraphWorkItem> {
        uids.iter()
            .map(|uid| GraphWorkItem::AttemptToDelete(Arc::from(*uid)))
            .collect()
    }

    fn observe(
        graph: &mut DependencyGraph,
        uid: &str,
        owners: &[&str],
        state: &[&str],
    ) -> Vec<GraphWorkItem> {
        graph.observe(&CONFIG_MAPS, &object(uid, owners, state))
    }

    #[test]
    fn looks_up_an_unobserved_owner_once() {
        let mut graph = DependencyGraph::default();
        assert_eq!(
            observe(&mut graph, "a", &["owner"], &[]),
            attempt_to_delete(&["owner"])
        );
        assert_eq!(observe(&mut graph, "b", &["owner"], &[]), []);
        assert_eq!(observe(&mut graph, "owner", &[], &[]), []);
    }

    #[test]
    fn checks_dependents_of_a_deleted_owner() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "owner", &[], &[]);
        observe(&mut graph, "a", &["owner"], &[]);
        assert_eq!(graph.remove("owner"), attempt_to_delete(&["a"]));
        assert_eq!(graph.remove("a"), []);
        assert_eq!(graph.len(), 0, "unreferenced nodes are dropped");
    }

    #[test]
    fn checks_an_owner_in_foreground_deletion_when_unblocked() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "owner", &[], &[]);
        observe(&mut graph, "a", &["owner!"], &[]);
        observe(&mut graph, "b", &["owner!"], &[]);
        let mut begun = observe(&mut graph, "owner", &[], &["foregroundDeletion"]);
        begun.sort_by_key(|work| format!("{work:?}"));
        assert_eq!(begun, attempt_to_delete(&["a", "b", "owner"]));
        assert_eq!(
            observe(&mut graph, "owner", &[], &["foregroundDeletion"]),
            [],
            "reported once"
        );
        assert_eq!(graph.blocking_dependents("owner").len(), 2);
        assert_eq!(
            observe(&mut graph, "a", &["owner"], &[]),
            attempt_to_delete(&["owner"])
        );
        assert_eq!(graph.remove("b"), attempt_to_delete(&["owner"]));
        assert_eq!(graph.blocking_dependents("owner").len(), 0);
    }

    #[test]
    fn checks_a_new_dependent_of_an_owner_in_foreground_deletion() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "owner", &[], &["foregroundDeletion"]);
        assert_eq!(
            observe(&mut graph, "late", &["owner!"], &[]),
            attempt_to_delete(&["late"])
        );
    }

    #[test]
    fn orphans_dependents_once() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "owner", &[], &[]);
        observe(&mut graph, "a", &["owner"], &[]);
        let begun = observe(&mut graph, "owner", &[], &["orphan"]);
        assert_eq!(begun, [GraphWorkItem::AttemptToOrphan(Arc::from("owner"))]);
        assert_eq!(observe(&mut graph, "owner", &[], &["orphan"]), []);
    }

    #[test]
    fn checks_references_with_wrong_coordinates() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "owner", &[], &[]);
        let mut liar = object("liar", &["owner"], &[]);
        liar.metadata.namespace = "elsewhere".into();
        let mut misled = attempt_to_delete(&["liar"]);
        misled.push(GraphWorkItem::ReportInvalidNamespaceOwnerRef {
            dependent: Arc::from("liar"),
            owner: Arc::from("owner"),
        });
        assert_eq!(graph.observe(&CONFIG_MAPS, &liar), misled);
        let mut graph = DependencyGraph::default();
        assert_eq!(graph.observe(&CONFIG_MAPS, &liar), attempt_to_delete(&["owner"]));
        assert_eq!(
            observe(&mut graph, "owner", &[], &[]),
            misled,
            "the owner is seen later"
        );
    }

    #[test]
    fn checks_references_to_absent_owners() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "a", &["owner"], &[]);
        assert_eq!(graph.remove("owner"), attempt_to_delete(&["a"]));
        assert_eq!(
            observe(&mut graph, "b", &["owner"], &[]),
            attempt_to_delete(&["b"])
        );
        observe(&mut graph, "owner", &[], &[]);
        assert_eq!(observe(&mut graph, "c", &["owner"], &[]), []);
    }

    #[test]
    fn edges_follow_owner_references() {
        let mut graph = DependencyGraph::default();
        observe(&mut graph, "one", &[], &[]);
        observe(&mut graph, "two", &[], &[]);
        observe(&mut graph, "a", &["one"], &[]);
        observe(&mut graph, "a", &["two"], &[]);
        assert_eq!(graph.remove("one"), []);
        assert_eq!(graph.remove("two"), attempt_to_delete(&["a"]));
    }
}
