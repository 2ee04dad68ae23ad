//! Maps Pod events to PodDisruptionBudgets.

use k3_workloads::Pod;
use kubecontroller::{Key, events::EventRecorder, informer::Delta, object::Object, store::Index};

use crate::{event_message::EventMessage, objects::PodDisruptionBudget, resource::PODS};

pub(super) struct PodEventHandler {
    pub(super) budgets: Index<PodDisruptionBudget>,
    pub(super) recorder: EventRecorder,
}

// --- PodEventHandler ---

impl PodEventHandler {
    /// The budgets to sync.
    // upstream: pkg/controller/disruption/disruption.go addPod, updatePod, deletePod, getPdbForPod
    pub(super) fn keys(&self, delta: &Delta<Pod>) -> Vec<Key> {
        match (delta.old(), delta.new()) {
            _ if matches!(delta, Delta::Sync { .. }) => Vec::new(),
            (Some(old), Some(new)) if !matters(old, new) => Vec::new(),
            (old, new) => {
                let mut keys = new.map(|pod| self.budgets_of_pod(pod)).unwrap_or_default();
                if let (Some(pod), [first, _, ..]) = (new, &keys[..]) {
                    self.record_event(pod, first);
                }
                keys.extend(old.map(|pod| self.budgets_of_pod(pod)).unwrap_or_default());
                keys
            }
        }
    }

    fn budgets_of_pod(&self, pod: &Pod) -> Vec<Key> {
        let budgets = self.budgets.get(&pod.metadata.namespace);
        let meant = budgets
            .iter()
            .filter(|budget| budget.selects(&pod.metadata.labels));
        meant.map(|budget| budget.key()).collect()
    }

    /// A pod with several budgets cannot be evicted.
    fn record_event(&self, pod: &Pod, first: &Key) {
        let namespace = &pod.metadata.namespace;
        let name = &pod.metadata.name;
        let message = format!(
            "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
            first.name()
        );
        EventMessage::warning("MultiplePodDisruptionBudgets", message)
            .record(&self.recorder, &PODS.object_reference(&pod.metadata));
    }
}

/// Whether a pod change can change the status of a budget.
fn matters(old: &Pod, new: &Pod) -> bool {
    let state = |pod: &Pod| (pod.is_ready(), pod.metadata.is_terminating());
    state(old) != state(new)
        || old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.controller() != new.metadata.controller()
}
