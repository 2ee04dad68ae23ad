//! Whose containers they are.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, RwLock},
};

use super::labels;

/// Whose containers they are. Two agents on one machine differ in it: by their cluster, or by their node.
#[derive(Clone, Debug, Default)]
pub struct Owner {
    /// The name of the node.
    pub node: String,
    /// The uid of the cluster. Nodes of two clusters may have the same name.
    pub cluster: String,
    /// Pods whose containers are of this owner although they do not carry a cluster: versions before this label made them.
    pub adopted: AdoptedPods,
}

/// Uids of pods whose containers are adopted. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct AdoptedPods(Arc<RwLock<HashSet<String>>>);

// --- Owner ---

impl Owner {
    /// The node of a cluster, with no pods to adopt.
    pub fn new(node: impl Into<String>, cluster: impl Into<String>) -> Self {
        Owner {
            node: node.into(),
            cluster: cluster.into(),
            adopted: AdoptedPods::default(),
        }
    }

    /// Whether something with these labels is of this owner.
    pub fn owns<'a>(&self, label: impl Fn(&str) -> Option<&'a String>) -> bool {
        if label(labels::NODE).is_none_or(|node| *node != self.node) {
            return false;
        }
        match label(labels::CLUSTER) {
            Some(cluster) => *cluster == self.cluster,
            None => label(labels::POD_UID).is_some_and(|uid| self.adopted.contains(uid)),
        }
    }

    /// The other cluster that something with these labels is of, if it is one's: empty if it does not say which.
    pub fn other_cluster<'a>(&self, label: impl Fn(&str) -> Option<&'a String>) -> Option<String> {
        label(labels::NODE)?;
        match label(labels::CLUSTER) {
            Some(cluster) => (*cluster != self.cluster).then(|| cluster.clone()),
            None => (!self.owns(label)).then(String::new),
        }
    }
}

// --- AdoptedPods ---

impl AdoptedPods {
    /// Adopts the containers of a pod of this cluster.
    pub fn add(&self, uid: &str) {
        let mut uids = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !uids.contains(uid) {
            uids.insert(uid.to_owned());
        }
    }

    /// Forgets a pod that is gone with all its containers.
    pub fn remove(&self, uid: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn contains(&self, uid: &str) -> bool {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn told(node: &str, cluster: Option<&str>, uid: &str) -> HashMap<String, String> {
        let mut all = HashMap::from([
            (labels::NODE.to_owned(), node.to_owned()),
            (labels::POD_UID.to_owned(), uid.to_owned()),
        ]);
        all.extend(cluster.map(|cluster| (labels::CLUSTER.to_owned(), cluster.to_owned())));
        all
    }

    #[test]
    fn an_owner_is_a_node_of_a_cluster() {
        let owner = Owner::new("n", "one");
        let owns = |all: &HashMap<String, String>| owner.owns(|name| all.get(name));
        assert!(owns(&told("n", Some("one"), "u")));
        assert!(!owns(&told("n", Some("two"), "u")));
        assert!(!owns(&told("m", Some("one"), "u")));
        let other = |all: &HashMap<String, String>| owner.other_cluster(|name| all.get(name));
        assert_eq!(other(&told("n", Some("two"), "u")), Some("two".to_owned()));
        assert_eq!(other(&told("m", Some("one"), "u")), None);
        assert_eq!(other(&told("n", None, "u")), Some(String::new()));
        assert_eq!(other(&HashMap::new()), None);
    }

    #[test]
    fn containers_without_a_cluster_are_adopted_by_the_uid_of_their_pod() {
        let owner = Owner::new("n", "one");
        let old = told("n", None, "u");
        let owns = || owner.owns(|name| old.get(name));
        assert!(!owns());
        owner.adopted.add("u");
        assert!(owns());
        let foreign = told("n", Some("two"), "u");
        assert!(!owner.owns(|name| foreign.get(name)));
        owner.adopted.remove("u");
        assert!(!owns());
    }
}
