//! The node and cluster that sandboxes and containers belong to.

use std::{collections::HashSet, sync::Arc};

use parking_lot::RwLock;

use super::labels;

/// The node and cluster that sandboxes and containers belong to. Two agents on one machine differ in the cluster or in the node name.
#[derive(Clone, Debug, Default)]
pub struct ContainerOwner {
    /// Node name.
    pub node: String,
    /// Cluster UID. Nodes of two clusters may have the same name.
    pub cluster: String,
    /// Pods whose containers belong to this owner although they lack the cluster label: releases before that label created them.
    pub adopted: AdoptedPods,
}

/// UIDs of pods whose containers without a cluster label are adopted. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct AdoptedPods(Arc<RwLock<HashSet<String>>>);

// --- ContainerOwner ---

impl ContainerOwner {
    /// Creates an owner without adopted pods.
    pub fn new(node: impl Into<String>, cluster: impl Into<String>) -> Self {
        ContainerOwner {
            node: node.into(),
            cluster: cluster.into(),
            adopted: AdoptedPods::default(),
        }
    }

    /// Returns whether a sandbox or container with these labels belongs to this owner.
    pub fn owns<'a>(&self, label: impl Fn(&str) -> Option<&'a String>) -> bool {
        if label(labels::NODE).is_none_or(|node| *node != self.node) {
            return false;
        }
        match label(labels::CLUSTER) {
            Some(cluster) => *cluster == self.cluster,
            None => label(labels::POD_UID).is_some_and(|uid| self.adopted.contains(uid)),
        }
    }

    /// Returns the other cluster that a sandbox or container with these labels belongs to: empty if it lacks the cluster label, `None` if
    /// it belongs to this cluster or to no node.
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
        let mut uids = self.0.write();
        if !uids.contains(uid) {
            uids.insert(uid.to_owned());
        }
    }

    /// Removes a pod after all its containers were removed.
    pub fn remove(&self, uid: &str) {
        self.0.write().remove(uid);
    }

    fn contains(&self, uid: &str) -> bool {
        self.0.read().contains(uid)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn labels_of(node: &str, cluster: Option<&str>, uid: &str) -> HashMap<String, String> {
        let mut all = HashMap::from([
            (labels::NODE.to_owned(), node.to_owned()),
            (labels::POD_UID.to_owned(), uid.to_owned()),
        ]);
        all.extend(cluster.map(|cluster| (labels::CLUSTER.to_owned(), cluster.to_owned())));
        all
    }

    #[test]
    fn owns_only_its_node_and_cluster() {
        let owner = ContainerOwner::new("n", "one");
        let owns = |all: &HashMap<String, String>| owner.owns(|name| all.get(name));
        assert!(owns(&labels_of("n", Some("one"), "u")));
        assert!(!owns(&labels_of("n", Some("two"), "u")));
        assert!(!owns(&labels_of("m", Some("one"), "u")));
        let other = |all: &HashMap<String, String>| owner.other_cluster(|name| all.get(name));
        assert_eq!(other(&labels_of("n", Some("two"), "u")), Some("two".to_owned()));
        assert_eq!(other(&labels_of("m", Some("one"), "u")), None);
        assert_eq!(other(&labels_of("n", None, "u")), Some(String::new()));
        assert_eq!(other(&HashMap::new()), None);
    }

    #[test]
    fn adopts_containers_without_cluster_label_by_pod_uid() {
        let owner = ContainerOwner::new("n", "one");
        let without_cluster = labels_of("n", None, "u");
        let owns = || owner.owns(|name| without_cluster.get(name));
        assert!(!owns());
        owner.adopted.add("u");
        assert!(owns());
        let foreign = labels_of("n", Some("two"), "u");
        assert!(!owner.owns(|name| foreign.get(name)));
        owner.adopted.remove("u");
        assert!(!owns());
    }
}
