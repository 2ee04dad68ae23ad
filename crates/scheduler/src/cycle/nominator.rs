//! Pods that others were pushed away for, and that are not placed yet.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{interner::Text, object::Pod};

/// Which pods may be placed on which node soon. Others of lower priority do not take their place.
#[derive(Debug, Default)]
// upstream: pkg/scheduler/backend/queue/nominator.go nominator
pub(crate) struct Nominator {
    by_node: HashMap<Text, Vec<Arc<Pod>>>,
    nodes: HashMap<Text, Text>,
}

impl Nominator {
    /// A pod may be placed on a node soon; nowhere when there is none.
    pub(crate) fn set(&mut self, pod: Arc<Pod>, node: Option<Text>) {
        self.remove(&pod.uid);
        if let Some(node) = node {
            self.nodes.insert(pod.uid.clone(), node.clone());
            self.by_node.entry(node).or_default().push(pod);
        }
    }

    /// A pod changed: it stays nominated where it was, unless it says something itself.
    pub(crate) fn update(&mut self, old: &Pod, new: &Arc<Pod>) {
        let quiet = old.nominated_node_name.is_none() && new.nominated_node_name.is_none();
        let kept = self.nodes.get(&old.uid).filter(|_| quiet).cloned();
        self.set(new.clone(), kept.or_else(|| new.nominated_node_name.clone()));
    }

    /// A pod is not nominated any more.
    pub(crate) fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else {
            return;
        };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| *pod.uid != *uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// The pods that may be placed on a node soon.
    pub(crate) fn on(&self, node: &str) -> &[Arc<Pod>] {
        if self.by_node.is_empty() {
            return &[];
        }
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }
}
