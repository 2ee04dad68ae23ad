//! Who owns whom, as far as events have told.
//!
//! The graph only says which objects to look at. What is done with one is decided by reading it and its owners from the server,
//! so an event that is late, or an owner reference that lies, costs a look and never an object.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::dependent::{Dependent, FOREGROUND, ORPHAN, Reference};
use crate::{
    objects::{Interner, SharedList},
    resource::Resource,
};

/// What tells objects apart.
pub(super) type Uid = Arc<str>;

/// Something to be done about an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// See whether it is to be deleted, or, if it waits for its dependents, whether it still has to.
    Judge(Uid),
    /// Take it out of the owners of its dependents, and let it go.
    Orphan(Uid),
    /// Tell that it names an owner that is in another namespace, where it cannot own it.
    Report { dependent: Uid, owner: Uid },
}

/// Where an object is.
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
pub(super) struct Node {
    pub(super) object_ref: ObjectRef,
    /// Whether an event told of it. If not, only its dependents did, and they may be wrong.
    pub(super) is_seen: bool,
    /// Whether it was looked for in vain. Who names it from then on has to be judged: nobody looks for it again.
    is_lost: bool,
    pub(super) is_going: bool,
    /// Whether it waits for its dependents to go.
    pub(super) waits: bool,
    /// Whether its dependents are to lose it first.
    orphans: bool,
    owners: SharedList<Reference>,
    dependents: HashSet<Uid>,
}

/// All objects that own or are owned, and all others, for they may.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    /// Kinds and namespaces, which are few.
    texts: Interner<str>,
}

// --- Graph ---

impl Graph {
    /// An object was made or has changed. Gives what follows from it.
    pub(super) fn saw(&mut self, resource: &Resource, object: &Dependent) -> Vec<Work> {
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
            .unwrap_or_else(|| Node::new(object_ref.clone()));
        node.object_ref = object_ref;
        node.is_lost = false;
        if !std::mem::replace(&mut node.is_seen, true) {
            self.look_at_misled(&uid, &node, &mut work);
        }
        let before = std::mem::replace(&mut node.owners, object.metadata.owner_references.clone());
        let (waited, orphaned) = (node.waits, node.orphans);
        node.is_going = object.is_going();
        node.waits = node.is_going && object.has(FOREGROUND);
        node.orphans = node.is_going && object.has(ORPHAN);
        let (owners, namespace) = (node.owners.clone(), Arc::clone(&node.object_ref.namespace));
        if node.waits && !waited {
            work.extend(node.dependents.iter().cloned().map(Work::Judge));
            work.push(Work::Judge(Arc::clone(&uid)));
        }
        if node.orphans && !orphaned {
            work.push(Work::Orphan(Arc::clone(&uid)));
        }
        self.nodes.insert(Arc::clone(&uid), node);
        // By uid: an object may have very many owners.
        let known: HashSet<&str> = before.iter().map(|old| &*old.uid).collect();
        for owner in &owners {
            if !known.contains(&*owner.uid) {
                self.join(&uid, owner, &namespace, &mut work);
            }
        }
        let mut by_uid: HashMap<&str, &Reference> = HashMap::with_capacity(owners.len());
        for owner in &owners {
            by_uid.entry(&owner.uid).or_insert(owner);
        }
        for old in &before {
            let new = by_uid.get(&*old.uid).copied();
            if new.is_none() {
                self.part(&uid, old);
            }
            // An owner that waits may have waited for this one.
            let blocks = |reference: &Reference| reference.block_owner_deletion;
            if blocks(old) && !new.is_some_and(blocks) {
                self.look_at_waiting(&old.uid, &mut work);
            }
        }
        work
    }

    /// An object is gone, or was never there. Gives what follows from it.
    pub(super) fn lost(&mut self, uid: &str) -> Vec<Work> {
        let Some(node) = self.nodes.remove(uid) else {
            return Vec::new();
        };
        let mut work: Vec<Work> = node.dependents.iter().cloned().map(Work::Judge).collect();
        if !node.dependents.is_empty() {
            // Its dependents still name it: should it come again, they are found.
            let left = Node {
                is_seen: false,
                is_lost: true,
                is_going: false,
                waits: false,
                orphans: false,
                owners: SharedList::default(),
                ..node.clone()
            };
            self.nodes.insert(Arc::from(uid), left);
        }
        for owner in &node.owners {
            self.part(uid, owner);
            self.look_at_waiting(&owner.uid, &mut work);
        }
        work
    }

    /// An object.
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name it as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<(Uid, Node)> {
        let Some(node) = self.nodes.get(uid) else {
            return Vec::new();
        };
        let known = |dependent: &Uid| Some((Arc::clone(dependent), self.nodes.get(dependent)?.clone()));
        node.dependents.iter().filter_map(known).collect()
    }

    /// Those of them that hold it back when it waits.
    pub(super) fn blocking(&self, uid: &str) -> Vec<(Uid, Node)> {
        let mut dependents = self.dependents(uid);
        dependents.retain(|(_, node)| node.blocks(uid));
        dependents
    }

    /// How many objects there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn join(&mut self, uid: &Uid, owner: &Reference, namespace: &Arc<str>, work: &mut Vec<Work>) {
        let told: Uid = Arc::from(&*owner.uid);
        let node = self.nodes.entry(Arc::clone(&told)).or_insert_with(|| {
            // Nobody has seen it yet, and it may not exist.
            work.push(Work::Judge(Arc::clone(&told)));
            Node::new(ObjectRef {
                api_version: self.texts.share(&*owner.api_version),
                kind: self.texts.share(&*owner.kind),
                namespace: Arc::clone(namespace),
                name: Arc::from(&*owner.name),
            })
        });
        node.dependents.insert(Arc::clone(uid));
        if node.is_seen && !node.object_ref.is_named(owner, namespace) {
            node.mislead(&told, uid, namespace, work);
        }
        if node.waits || node.is_lost {
            work.push(Work::Judge(Arc::clone(uid)));
        }
    }

    /// Ends the bond between an object and an owner it had.
    fn part(&mut self, uid: &str, owner: &Reference) {
        if let Some(node) = self.nodes.get_mut(&*owner.uid) {
            node.dependents.remove(uid);
            if !node.is_seen && node.dependents.is_empty() {
                self.nodes.remove(&*owner.uid);
            }
        }
    }

    /// Those who named it before it was seen may have been wrong about it.
    fn look_at_misled(&self, uid: &Uid, node: &Node, work: &mut Vec<Work>) {
        for dependent in &node.dependents {
            let Some(known) = self.nodes.get(dependent) else {
                continue;
            };
            let namespace = &known.object_ref.namespace;
            if known
                .owner(uid)
                .is_some_and(|owner| !node.object_ref.is_named(owner, namespace))
            {
                node.mislead(uid, dependent, namespace, work);
            }
        }
    }

    fn look_at_waiting(&self, uid: &str, work: &mut Vec<Work>) {
        if self.nodes.get(uid).is_some_and(|node| node.waits) {
            work.push(Work::Judge(Arc::from(uid)));
        }
    }
}

// --- Node ---

impl Node {
    fn new(object_ref: ObjectRef) -> Self {
        Node {
            object_ref,
            is_seen: false,
            is_lost: false,
            is_going: false,
            waits: false,
            orphans: false,
            owners: SharedList::default(),
            dependents: HashSet::new(),
        }
    }

    /// What it says of an owner, if it has that.
    pub(super) fn owner(&self, uid: &str) -> Option<&Reference> {
        self.owners.iter().find(|owner| *owner.uid == *uid)
    }

    /// What follows when an object in a namespace says of this owner what is not so: whether it has one at all must be seen.
    fn mislead(&self, uid: &Uid, dependent: &Uid, namespace: &str, work: &mut Vec<Work>) {
        work.push(Work::Judge(Arc::clone(dependent)));
        if !self.object_ref.namespace.is_empty() && *self.object_ref.namespace != *namespace {
            work.push(Work::Report {
                dependent: Arc::clone(dependent),
                owner: Arc::clone(uid),
            });
        }
    }

    fn blocks(&self, owner: &str) -> bool {
        self.owner(owner)
            .is_some_and(|reference| reference.block_owner_deletion)
    }
}

// --- Place ---

impl ObjectRef {
    /// Whether a reference from a namespace names this place. The version does not matter: objects are served in several.
    fn is_named(&self, owner: &Reference, namespace: &str) -> bool {
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

    /// An object: `owners` are `uid` or `uid!` if it blocks; `state` are finalizers, and going if there are any.
    fn object(uid: &str, owners: &[&str], state: &[&str]) -> Dependent {
        let owners: Vec<_> = owners
            .iter()
            .map(|owner| {
                let name = owner.trim_end_matches('!');
                serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name,
                    "blockOwnerDeletion": owner.ends_with('!')})
            })
            .collect();
        let going = (!state.is_empty()).then_some("2026-01-01T00:00:00Z");
        serde_json::from_value(
            serde_json::json!({"metadata": {"name": uid, "namespace": "n", "uid": uid,
            "ownerReferences": owners, "finalizers": state, "deletionTimestamp": going}}),
        )
        .unwrap()
    }

    fn judge(uids: &[&str]) -> Vec<Work> {
        uids.iter().map(|uid| Work::Judge(Arc::from(*uid))).collect()
    }

    fn saw(graph: &mut Graph, uid: &str, owners: &[&str], state: &[&str]) -> Vec<Work> {
        graph.saw(&CONFIG_MAPS, &object(uid, owners, state))
    }

    #[test]
    fn an_owner_that_nobody_has_seen_is_looked_for_once() {
        let mut graph = Graph::default();
        assert_eq!(saw(&mut graph, "a", &["owner"], &[]), judge(&["owner"]));
        assert_eq!(saw(&mut graph, "b", &["owner"], &[]), []);
        assert_eq!(saw(&mut graph, "owner", &[], &[]), []);
    }

    #[test]
    fn when_an_owner_goes_its_dependents_are_judged() {
        let mut graph = Graph::default();
        saw(&mut graph, "owner", &[], &[]);
        saw(&mut graph, "a", &["owner"], &[]);
        assert_eq!(graph.lost("owner"), judge(&["a"]));
        assert_eq!(graph.lost("a"), []);
        assert_eq!(graph.len(), 0, "nothing is kept of what nobody names");
    }

    #[test]
    fn an_owner_that_waits_is_judged_when_what_held_it_goes_or_lets_go() {
        let mut graph = Graph::default();
        saw(&mut graph, "owner", &[], &[]);
        saw(&mut graph, "a", &["owner!"], &[]);
        saw(&mut graph, "b", &["owner!"], &[]);
        let mut begun = saw(&mut graph, "owner", &[], &["foregroundDeletion"]);
        begun.sort_by_key(|work| format!("{work:?}"));
        assert_eq!(begun, judge(&["a", "b", "owner"]));
        assert_eq!(
            saw(&mut graph, "owner", &[], &["foregroundDeletion"]),
            [],
            "it is told once"
        );
        assert_eq!(graph.blocking("owner").len(), 2);
        assert_eq!(saw(&mut graph, "a", &["owner"], &[]), judge(&["owner"]));
        assert_eq!(graph.lost("b"), judge(&["owner"]));
        assert_eq!(graph.blocking("owner").len(), 0);
    }

    #[test]
    fn a_dependent_that_comes_while_its_owner_waits_is_judged() {
        let mut graph = Graph::default();
        saw(&mut graph, "owner", &[], &["foregroundDeletion"]);
        assert_eq!(saw(&mut graph, "late", &["owner!"], &[]), judge(&["late"]));
    }

    #[test]
    fn an_owner_that_is_to_leave_orphans_is_worked_on_once() {
        let mut graph = Graph::default();
        saw(&mut graph, "owner", &[], &[]);
        saw(&mut graph, "a", &["owner"], &[]);
        let begun = saw(&mut graph, "owner", &[], &["orphan"]);
        assert_eq!(begun, [Work::Orphan(Arc::from("owner"))]);
        assert_eq!(saw(&mut graph, "owner", &[], &["orphan"]), []);
    }

    #[test]
    fn a_reference_that_lies_about_its_owner_is_judged() {
        let mut graph = Graph::default();
        saw(&mut graph, "owner", &[], &[]);
        let mut liar = object("liar", &["owner"], &[]);
        liar.metadata.namespace = "elsewhere".into();
        let mut misled = judge(&["liar"]);
        misled.push(Work::Report {
            dependent: Arc::from("liar"),
            owner: Arc::from("owner"),
        });
        assert_eq!(graph.saw(&CONFIG_MAPS, &liar), misled);
        let mut graph = Graph::default();
        assert_eq!(graph.saw(&CONFIG_MAPS, &liar), judge(&["owner"]));
        assert_eq!(
            saw(&mut graph, "owner", &[], &[]),
            misled,
            "the owner is seen later"
        );
    }

    #[test]
    fn who_names_an_owner_that_was_looked_for_in_vain_is_judged() {
        let mut graph = Graph::default();
        saw(&mut graph, "a", &["owner"], &[]);
        assert_eq!(graph.lost("owner"), judge(&["a"]));
        assert_eq!(saw(&mut graph, "b", &["owner"], &[]), judge(&["b"]));
        saw(&mut graph, "owner", &[], &[]);
        assert_eq!(saw(&mut graph, "c", &["owner"], &[]), []);
    }

    #[test]
    fn bonds_follow_the_references() {
        let mut graph = Graph::default();
        saw(&mut graph, "one", &[], &[]);
        saw(&mut graph, "two", &[], &[]);
        saw(&mut graph, "a", &["one"], &[]);
        saw(&mut graph, "a", &["two"], &[]);
        assert_eq!(graph.lost("one"), []);
        assert_eq!(graph.lost("two"), judge(&["a"]));
    }
}
