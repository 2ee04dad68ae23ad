//! Maps Pod events to the sets to sync.

use std::sync::Arc;

use k3_workloads::{OwnerReference, Pod};
use kubecontroller::{
    Key,
    expectations::ControllerExpectations,
    informer::Delta,
    object::Object,
    resource::Resource,
    selector::Selector,
    store::{Index, Store},
};

/// Finds the sets of a kind that a pod belongs to, and updates expectations.
pub(crate) struct PodEventHandler<T> {
    resource: &'static Resource,
    sets: Store<T>,
    by_namespace: Index<T>,
    selector: fn(&T) -> &Selector,
    matters: fn(&Pod, &Pod) -> bool,
    expected: Arc<ControllerExpectations>,
}

/// Drops the expectations of a deleted set, so that a new one of the same name starts without any.
pub(crate) fn forget_replaced_set<T: Object>(
    delta: &Delta<T>,
    expected: &ControllerExpectations,
) -> Vec<Key> {
    let old = delta.old();
    let new = delta.new();
    if old.is_some_and(|old| new.is_none_or(|new| new.uid() != old.uid())) {
        expected.delete_expectations(&delta.object().key());
    }
    Vec::new()
}

impl<T: Object> PodEventHandler<T> {
    /// For sets with a selector. `matters` reports whether a pod change can change anything for a set.
    pub(crate) fn new(
        resource: &'static Resource,
        sets: &Store<T>,
        selector: fn(&T) -> &Selector,
        matters: fn(&Pod, &Pod) -> bool,
        expected: Arc<ControllerExpectations>,
    ) -> Self {
        PodEventHandler {
            resource,
            sets: sets.clone(),
            by_namespace: sets.by_namespace(),
            selector,
            matters,
            expected,
        }
    }

    /// The sets to sync.
    // upstream: pkg/controller/replicaset/replica_set.go addPod, updatePod, deletePod
    pub(crate) fn keys(&self, delta: &Delta<Pod>) -> Vec<Key> {
        match delta {
            Delta::Sync { .. } => Vec::new(),
            Delta::Deleted { last, .. } => self.on_deleted(last),
            Delta::Added { new, .. } if new.metadata.is_terminating() => self.on_deleted(new),
            Delta::Added { new, .. } => match self.owning_set(new) {
                Some(set) => {
                    self.expected.creation_observed(&set);
                    vec![set]
                }
                None => self.adopting_sets(new),
            },
            Delta::Updated { old, new } | Delta::Replaced { old, new } => self.on_updated(old, new),
        }
    }

    fn on_updated(&self, old: &Pod, new: &Pod) -> Vec<Key> {
        if !(self.matters)(old, new) {
            return Vec::new();
        }
        let mut keys = if new.metadata.is_terminating() {
            // It does not count any more, however long it takes to go.
            self.on_deleted(new)
        } else if let Some(set) = self.owning_set(new) {
            vec![set]
        } else {
            self.adopting_sets(new)
        };
        if old.metadata.controller() != new.metadata.controller() {
            keys.extend(self.owning_set(old));
        }
        keys
    }

    fn on_deleted(&self, pod: &Pod) -> Vec<Key> {
        let set = self.owning_set(pod);
        if let Some(set) = &set {
            self.expected.deletion_observed(set, &pod.metadata.uid);
        }
        set.into_iter().collect()
    }

    /// The set that controls a pod, if it is there.
    // upstream: pkg/controller/replicaset/replica_set.go resolveControllerRef
    fn owning_set(&self, pod: &Pod) -> Option<Key> {
        let OwnerReference { kind, name, uid, .. } = pod.metadata.controller()?;
        let key = Key::new(&pod.metadata.namespace, name);
        let is_there = || self.sets.get(&key).is_some_and(|set| set.uid() == &**uid);
        (**kind == *self.resource.kind && is_there()).then_some(key)
    }

    /// Sets whose selector matches an orphan pod.
    // upstream: pkg/controller/replicaset/replica_set.go getPodReplicaSets
    fn adopting_sets(&self, pod: &Pod) -> Vec<Key> {
        if pod.metadata.controller().is_some() || pod.metadata.labels.is_empty() {
            return Vec::new();
        }
        let sets = self.by_namespace.get(&pod.metadata.namespace);
        let would_adopt = |set: &&Arc<T>| {
            let selector = (self.selector)(set);
            !selector.is_empty() && selector.matches(&pod.metadata.labels)
        };
        sets.iter().filter(would_adopt).map(|set| set.key()).collect()
    }
}

/// Whether a change of a pod can change anything for a set that counts pods that are ready, have ended or go. Most do not: pods
/// get nodes, addresses and containers.
pub(crate) fn matters(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| {
        (
            pod.is_ready(),
            pod.ready_since(),
            pod.has_ended(),
            pod.metadata.is_terminating(),
        )
    };
    facts(old) != facts(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.controller() != new.metadata.controller()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(text: &Value) -> Pod {
        serde_json::from_value(text.clone()).unwrap()
    }

    #[test]
    fn ignores_irrelevant_pod_changes() {
        let plain = json!({"metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}}});
        let with = |path: &str, value: Value| {
            let mut tree = plain.clone();
            let (parent, name) = path.rsplit_once('/').unwrap();
            if tree.pointer(parent).is_none() {
                tree[&parent[1..]] = json!({});
            }
            tree.pointer_mut(parent).unwrap()[name] = value;
            pod(&tree)
        };
        let ready =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let cases = [
            (with("/spec/nodeName", json!("n1")), false),
            (with("/status/phase", json!("Running")), false),
            (with("/metadata/annotations", json!({"x": "y"})), false),
            (with("/status/phase", json!("Failed")), true),
            (with("/status/conditions", ready), true),
            (with("/metadata/labels", json!({"a": "c"})), true),
            (with("/metadata/uid", json!("other")), true),
            (
                with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
                true,
            ),
            (
                with(
                    "/metadata/ownerReferences",
                    json!([{"uid": "s", "controller": true}]),
                ),
                true,
            ),
        ];
        for (changed, expected) in cases {
            assert_eq!(matters(&pod(&plain), &changed), expected, "{changed:?}");
        }
    }
}
