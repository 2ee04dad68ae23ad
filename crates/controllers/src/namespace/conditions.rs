//! Conditions in the status of a terminating namespace.

use std::collections::BTreeMap;

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;

use crate::resource::Resource;

/// The result of deleting the contents of a namespace.
#[derive(Debug, Default)]
pub(super) struct DeletionResult {
    /// Why discovery was incomplete.
    pub(super) discovery_error: Option<String>,
    /// Deletion failures.
    pub(super) failures: Vec<String>,
    /// Remaining objects by resource.
    pub(super) remaining: Vec<(Resource, usize)>,
    /// Remaining objects by finalizer.
    pub(super) finalizers_remaining: BTreeMap<String, usize>,
}

/// Conditions in order: type, and reason and message on success.
const TYPES: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        "NamespaceContentRemaining",
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

// --- DeletionResult ---

impl DeletionResult {
    /// The new conditions, with foreign ones unchanged; `None` if nothing changes.
    // upstream: pkg/controller/namespace/deletion/status_condition_utils.go updateConditions
    pub(super) fn conditions(&self, old: &[Condition], now: Timestamp) -> Option<Vec<Condition>> {
        let mut conditions = old.to_vec();
        for (kind, reason, message) in TYPES {
            let bad = self.failure_reason(kind);
            let status = ConditionStatus::from(bad.is_some());
            let (reason, message) = bad.unwrap_or_else(|| (reason, message.to_owned()));
            let position = conditions.iter().position(|condition| &*condition.kind == kind);
            let position = position.unwrap_or_else(|| {
                conditions.push(Condition {
                    kind: kind.into(),
                    status,
                    last_transition_time: Some(now),
                    ..Condition::default()
                });
                conditions.len() - 1
            });
            let condition = &mut conditions[position];
            if condition.status != status {
                condition.last_transition_time = Some(now);
            }
            condition.status = status;
            condition.reason = reason.into();
            condition.message = message.into();
        }
        (conditions != old).then_some(conditions)
    }

    // upstream: pkg/controller/namespace/deletion/status_condition_utils.go ProcessContentTotals, ProcessDiscoverResourcesErr, makeDeleteContentCondition
    fn failure_reason(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", self.discovery_error.clone()?)),
            "NamespaceDeletionContentFailure" if !self.failures.is_empty() => {
                let mut failures = self.failures.clone();
                failures.sort();
                let message = format!(
                    "Failed to delete all resource types, {} remaining: {}",
                    failures.len(),
                    failures.join(", ")
                );
                Some(("ContentDeletionFailed", message))
            }
            "NamespaceContentRemaining" if !self.remaining.is_empty() => {
                let resource_counts = self.remaining.iter().map(|(resource, count)| {
                    format!(
                        "{}.{} has {count} resource instances",
                        resource.plural, resource.group
                    )
                });
                let mut resource_counts: Vec<_> = resource_counts.collect();
                resource_counts.sort();
                let message = format!("Some resources are remaining: {}", resource_counts.join(", "));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.finalizers_remaining.is_empty() => {
                let resource_counts = self.finalizers_remaining.iter();
                let resource_counts = resource_counts
                    .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
                let message = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    resource_counts.collect::<Vec<_>>().join(", ")
                );
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{CONFIG_MAPS, DEPLOYMENTS};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn reports_remaining_objects_by_resource_and_finalizer() {
        let result = DeletionResult {
            remaining: vec![(DEPLOYMENTS.clone(), 2), (CONFIG_MAPS.clone(), 1)],
            finalizers_remaining: BTreeMap::from([("e.com/f".to_owned(), 3)]),
            ..DeletionResult::default()
        };
        let conditions = result.conditions(&[], at(1)).unwrap();
        let resource_counts: Vec<_> = conditions.iter().map(|c| (&*c.reason, &*c.message)).collect();
        assert_eq!(
            resource_counts[3].1,
            "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 2 resource instances"
        );
        assert_eq!(
            resource_counts[4],
            (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: e.com/f in 3 resource instances"
            )
        );
        assert_eq!(resource_counts[0].0, "ResourcesDiscovered");
    }

    #[test]
    fn transition_time_changes_with_status_only() {
        let remaining = |count| DeletionResult {
            remaining: vec![(CONFIG_MAPS.clone(), count)],
            ..DeletionResult::default()
        };
        let first = remaining(2).conditions(&[], at(1)).unwrap();
        assert_eq!(remaining(2).conditions(&first, at(2)), None);
        let second = remaining(1).conditions(&first, at(3)).unwrap();
        assert_eq!(second[3].last_transition_time, Some(at(1)));
        let third = DeletionResult::default().conditions(&second, at(4)).unwrap();
        assert_eq!(third[3].last_transition_time, Some(at(4)));
        assert_eq!(third[0].last_transition_time, Some(at(1)));
    }
}
