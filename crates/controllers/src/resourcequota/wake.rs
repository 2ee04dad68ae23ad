//! Which quotas have to be counted when something happens to an object: when one goes, or may use less than before.

use k3_api::quota::{DeviceClassIndex, QuotaEvaluator};
use kubecontroller::{
    Key,
    informer::Delta,
    object::Object,
    store::{Index, Store},
};

use super::Quota;
use crate::{
    garbage::Dependent,
    objects::{Condition, Pod},
    resource::Resource,
};

/// The conditions that a pod has while it gets more, or less.
const RESIZING: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// Finds the quotas that the objects of a kind concern.
pub(super) struct Wake {
    meter: QuotaEvaluator,
    quotas: Index<Quota>,
}

// --- Wake ---

impl Wake {
    pub(super) fn new(resource: &Resource, quotas: &Store<Quota>) -> Self {
        Wake {
            meter: QuotaEvaluator::of(&resource.group, &resource.plural, Default::default),
            quotas: quotas.by_namespace(),
        }
    }

    /// The quotas that a change of a pod concerns.
    pub(super) fn pod(&self, delta: &Delta<Pod>) -> Vec<Key> {
        let matters = match delta {
            Delta::Deleted { .. } => true,
            Delta::Updated { old, new } | Delta::Replaced { old, new } => frees(old, new),
            Delta::Added { .. } | Delta::Sync { .. } => false,
        };
        self.concerned(matters, delta.object().namespace())
    }

    /// The quotas that a change of another object concerns. Of those that use more than their place in the store, it is not
    /// kept what they use: any change may matter.
    pub(super) fn object(&self, delta: &Delta<Dependent>) -> Vec<Key> {
        let matters = match delta {
            Delta::Deleted { .. } => true,
            Delta::Updated { old, new } | Delta::Replaced { old, new } => {
                !matches!(self.meter, QuotaEvaluator::Count(_))
                    && old.resource_version() != new.resource_version()
            }
            Delta::Added { .. } | Delta::Sync { .. } => false,
        };
        self.concerned(matters, delta.object().namespace())
    }

    fn concerned(&self, matters: bool, namespace: &str) -> Vec<Key> {
        if !matters {
            return Vec::new();
        }
        let quotas = self.quotas.get(namespace);
        let counts = quotas
            .iter()
            .filter(|quota| quota.spec.hard.keys().any(|name| self.tracks(name)));
        counts.map(|quota| quota.key()).collect()
    }

    fn tracks(&self, name: &str) -> bool {
        match self.meter {
            QuotaEvaluator::Devices(_) => DeviceClassIndex::may_track(name),
            _ => self.meter.tracks(name),
        }
    }
}

/// Whether a pod may use less than before, or be meant by other quotas.
fn frees(old: &Pod, new: &Pod) -> bool {
    let resizing = |pod: &Pod| RESIZING.map(|kind| Condition::find(&pod.status.conditions, kind).is_some());
    old.metadata.uid != new.metadata.uid
        || (new.has_ended() && !old.has_ended())
        || (new.metadata.is_going() && !old.metadata.is_going())
        || old.metadata.generation != new.metadata.generation
        || resizing(old) != resizing(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_frees_something_when_it_ends_goes_or_is_changed() {
        let pod = |change: Value| {
            let mut pod = json!({"metadata": {"uid": "1", "generation": 1}, "status": {"phase": "Running"}});
            k3_api::patch::merge::apply(std::mem::take(&mut pod), change)
                .map(|pod| serde_json::from_value::<Pod>(pod).unwrap())
                .unwrap_or_default()
        };
        let old = pod(json!({}));
        for (change, expected) in [
            (json!({"metadata": {"labels": {"a": "b"}}}), false),
            (json!({"status": {"phase": "Pending"}}), false),
            (json!({"status": {"phase": "Succeeded"}}), true),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
                true,
            ),
            (json!({"metadata": {"generation": 2}}), true),
            (
                json!({"status": {"conditions": [{"type": "PodResizeInProgress", "status": "True"}]}}),
                true,
            ),
        ] {
            assert_eq!(frees(&old, &pod(change.clone())), expected, "{change}");
        }
    }
}
