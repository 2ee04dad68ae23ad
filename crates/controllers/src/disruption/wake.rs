//! Which budgets have to be looked at when something happens to a pod.

use kubecontroller::{Key, events::EventRecorder, informer::Delta, object::Object, store::Index};

use crate::{
    news::News,
    objects::{Budget, Pod},
    resource::PODS,
};

/// Finds the budgets that a pod concerns.
pub(super) struct Wake {
    pub(super) budgets: Index<Budget>,
    pub(super) recorder: EventRecorder,
}

// --- Wake ---

impl Wake {
    /// The budgets to be looked at.
    pub(super) fn keys(&self, delta: &Delta<Pod>) -> Vec<Key> {
        match (delta.old(), delta.new()) {
            _ if matches!(delta, Delta::Sync { .. }) => Vec::new(),
            (Some(old), Some(new)) if !matters(old, new) => Vec::new(),
            (old, new) => {
                let mut keys = new.map(|pod| self.of(pod)).unwrap_or_default();
                if let (Some(pod), [first, _, ..]) = (new, &keys[..]) {
                    self.tell(pod, first);
                }
                keys.extend(old.map(|pod| self.of(pod)).unwrap_or_default());
                keys
            }
        }
    }

    fn of(&self, pod: &Pod) -> Vec<Key> {
        let budgets = self.budgets.get(&pod.metadata.namespace);
        let meant = budgets
            .iter()
            .filter(|budget| budget.selects(&pod.metadata.labels));
        meant.map(|budget| budget.key()).collect()
    }

    /// A pod with several budgets cannot be evicted at all.
    fn tell(&self, pod: &Pod, first: &Key) {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        let words = format!(
            "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            first.name()
        );
        News::warning("MultiplePodDisruptionBudgets", words)
            .tell(&self.recorder, &pod.metadata.reference(&PODS));
    }
}

/// Whether a change of a pod can change anything for a budget.
fn matters(old: &Pod, new: &Pod) -> bool {
    let state = |pod: &Pod| (pod.is_ready(), pod.metadata.is_going());
    state(old) != state(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.controller() != new.metadata.controller()
}
