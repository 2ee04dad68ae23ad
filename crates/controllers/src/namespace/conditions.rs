//! What the status of a namespace tells while it goes.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use crate::{
    objects::{Condition, ConditionStatus},
    resource::Resource,
};

/// What was found when the contents of a namespace were deleted.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Why not all resources are known.
    pub(super) undiscovered: Option<String>,
    /// What could not be deleted.
    pub(super) failures: Vec<String>,
    /// How many objects are left, by resource.
    pub(super) left: Vec<(Resource, usize)>,
    /// How many of them a finalizer holds.
    pub(super) held: BTreeMap<String, usize>,
}

/// The conditions, in the order in which they are told: type, and reason and message if all is well.
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

// --- Findings ---

impl Findings {
    /// The conditions that follow, with those of others as they are; `None` if nothing changes.
    pub(super) fn conditions(&self, old: &[Condition], now: Timestamp) -> Option<Vec<Condition>> {
        let mut conditions = old.to_vec();
        for (kind, reason, message) in TYPES {
            let bad = self.bad(kind);
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

    fn bad(&self, kind: &str) -> Option<(&'static str, String)> {
        match kind {
            "NamespaceDeletionDiscoveryFailure" => Some(("DiscoveryFailed", self.undiscovered.clone()?)),
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
            "NamespaceContentRemaining" if !self.left.is_empty() => {
                let told = self.left.iter().map(|(resource, count)| {
                    format!(
                        "{}.{} has {count} resource instances",
                        resource.plural, resource.group
                    )
                });
                let mut told: Vec<_> = told.collect();
                told.sort();
                let message = format!("Some resources are remaining: {}", told.join(", "));
                Some(("SomeResourcesRemain", message))
            }
            "NamespaceFinalizersRemaining" if !self.held.is_empty() => {
                let told = self.held.iter();
                let told =
                    told.map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
                let message = format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    told.collect::<Vec<_>>().join(", ")
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
    fn what_is_left_is_told_by_resource_and_finalizer() {
        let findings = Findings {
            left: vec![(DEPLOYMENTS.clone(), 2), (CONFIG_MAPS.clone(), 1)],
            held: BTreeMap::from([("e.com/f".to_owned(), 3)]),
            ..Findings::default()
        };
        let conditions = findings.conditions(&[], at(1)).unwrap();
        let told: Vec<_> = conditions.iter().map(|c| (&*c.reason, &*c.message)).collect();
        assert_eq!(
            told[3].1,
            "Some resources are remaining: configmaps. has 1 resource instances, deployments.apps has 2 resource instances"
        );
        assert_eq!(
            told[4],
            (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: e.com/f in 3 resource instances"
            )
        );
        assert_eq!(told[0].0, "ResourcesDiscovered");
    }

    #[test]
    fn nothing_is_told_twice_and_times_move_with_the_status_alone() {
        let left = |count| Findings {
            left: vec![(CONFIG_MAPS.clone(), count)],
            ..Findings::default()
        };
        let first = left(2).conditions(&[], at(1)).unwrap();
        assert_eq!(left(2).conditions(&first, at(2)), None);
        let second = left(1).conditions(&first, at(3)).unwrap();
        assert_eq!(second[3].last_transition_time, Some(at(1)));
        let third = Findings::default().conditions(&second, at(4)).unwrap();
        assert_eq!(third[3].last_transition_time, Some(at(4)));
        assert_eq!(third[0].last_transition_time, Some(at(1)));
    }
}
