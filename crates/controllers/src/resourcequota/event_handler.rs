//! Maps object events to the quotas to recount: deleted objects, and objects that may use less than before.

use k3_api::quota::{DeviceClassIndex, QuotaEvaluator};
use k3_workloads::{Condition, Pod};
use kubecontroller::{
    Key,
    informer::Delta,
    object::Object,
    resource::Resource,
    store::{Index, Store},
};

use super::Quota;
use crate::garbage::Dependent;

/// Conditions of a pod during an in-place resize.
const RESIZING: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

pub(super) struct QuotaEventHandler {
    meter: QuotaEvaluator,
    quotas: Index<Quota>,
}

// --- QuotaEventHandler ---

impl QuotaEventHandler {
    pub(super) fn new(resource: &Resource, quotas: &Store<Quota>) -> Self {
        QuotaEventHandler {
            meter: QuotaEvaluator::of(&resource.group, &resource.plural, Default::default),
            quotas: quotas.by_namespace(),
        }
    }

    /// Quotas affected by a pod event.
    // upstream: pkg/controller/resourcequota/resource_quota_monitor.go controllerFor, processResourceChanges
    pub(super) fn quotas_of_pod(&self, delta: &Delta<Pod>) -> Vec<Key> {
        let matters = match delta {
            Delta::Deleted { .. } => true,
            Delta::Updated { old, new } | Delta::Replaced { old, new } => may_release_usage(old, new),
            Delta::Added { .. } | Delta::Sync { .. } => false,
        };
        if !matters {
            return Vec::new();
        }
        self.tracking_quotas(delta.object().namespace())
    }

    /// Quotas affected by an event of another object. For objects with more than a count, the usage is not cached: any update may
    /// matter.
    // upstream: pkg/controller/resourcequota/resource_quota_controller.go replenishQuota
    pub(super) fn quotas_of_object(&self, delta: &Delta<Dependent>) -> Vec<Key> {
        let matters = match delta {
            Delta::Deleted { .. } => true,
            Delta::Updated { old, new } | Delta::Replaced { old, new } => {
                !matches!(self.meter, QuotaEvaluator::Count(_))
                    && old.resource_version() != new.resource_version()
            }
            Delta::Added { .. } | Delta::Sync { .. } => false,
        };
        if !matters {
            return Vec::new();
        }
        self.tracking_quotas(delta.object().namespace())
    }

    /// The quotas of a namespace that count objects of this kind.
    fn tracking_quotas(&self, namespace: &str) -> Vec<Key> {
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

/// Whether a pod may use less than before, or match other quotas.
fn may_release_usage(old: &Pod, new: &Pod) -> bool {
    let resizing = |pod: &Pod| RESIZING.map(|kind| Condition::find(&pod.status.conditions, kind).is_some());
    old.metadata.uid != new.metadata.uid
        || (new.has_ended() && !old.has_ended())
        || (new.metadata.is_terminating() && !old.metadata.is_terminating())
        || old.metadata.generation != new.metadata.generation
        || resizing(old) != resizing(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn detects_released_usage_of_pods() {
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
            assert_eq!(
                may_release_usage(&old, &pod(change.clone())),
                expected,
                "{change}"
            );
        }
    }
}
