//! The conditions of a deployment.

use k3_workloads::{Condition, ConditionStatus};
use k8s_openapi::jiff::Timestamp;

use crate::patch_values;

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// When the condition was last written; the progress deadline counts from it.
const UPDATED: &str = "lastUpdateTime";

/// A new condition with the current time.
// upstream: pkg/controller/deployment/util/deployment_util.go NewDeploymentCondition
pub(super) fn new(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    let now = patch_values::truncate_to_second(now);
    let condition = Condition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        last_transition_time: Some(now),
        ..Condition::default()
    };
    update(condition, now)
}

/// Converts a ReplicaSet's condition to a Deployment's.
// upstream: pkg/controller/deployment/util/deployment_util.go ReplicaSetToDeploymentCondition
pub(super) fn from_replica_set(condition: &Condition) -> Condition {
    let condition = condition.clone();
    match condition.last_transition_time {
        Some(since) => update(condition, since),
        None => condition,
    }
}

/// Sets a condition in a list. One with the same status and reason is kept; one with the same status keeps its
/// lastTransitionTime.
// upstream: pkg/controller/deployment/util/deployment_util.go SetDeploymentCondition
pub(super) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(before) = Condition::find(conditions, &condition.kind) {
        if before.status == condition.status {
            if before.reason == condition.reason {
                return;
            }
            condition.last_transition_time = before.last_transition_time;
        }
        remove_condition(conditions, &condition.kind);
    }
    conditions.push(condition);
}

/// Removes a condition from a list.
pub(super) fn remove_condition(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| &*condition.kind != kind);
}

/// The lastUpdateTime of a condition.
pub(super) fn last_update_time(condition: &Condition) -> Option<Timestamp> {
    condition.other.get(UPDATED)?.as_str()?.parse().ok()
}

fn update(mut condition: Condition, at: Timestamp) -> Condition {
    condition.other.insert(UPDATED.to_owned(), at.to_string().into());
    condition
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn keeps_transition_time_of_an_unchanged_condition() {
        let condition =
            |status, reason: &str, second| new(PROGRESSING, status, reason, String::new(), at(second));
        let mut list = vec![
            condition(ConditionStatus::True, "A", 1),
            new(AVAILABLE, ConditionStatus::True, "", String::new(), at(0)),
        ];
        set(&mut list, condition(ConditionStatus::True, "A", 2));
        let times = |list: &[Condition]| {
            let found = Condition::find(list, PROGRESSING).unwrap();
            (
                found.last_transition_time.unwrap(),
                last_update_time(found).unwrap(),
            )
        };
        assert_eq!(times(&list), (at(1), at(1)));
        set(&mut list, condition(ConditionStatus::True, "B", 3));
        assert_eq!(times(&list), (at(1), at(3)));
        set(&mut list, condition(ConditionStatus::False, "B", 4));
        assert_eq!(times(&list), (at(4), at(4)));
        assert_eq!(list.len(), 2);
    }
}
