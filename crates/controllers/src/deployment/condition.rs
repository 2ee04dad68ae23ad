//! The conditions of a deployment.

use k8s_openapi::jiff::Timestamp;

use crate::{
    objects::{Condition, ConditionStatus},
    written,
};

pub(super) const AVAILABLE: &str = "Available";
pub(super) const PROGRESSING: &str = "Progressing";
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

/// When somebody last had a reason to write the condition; progress is measured from there.
const UPDATED: &str = "lastUpdateTime";

/// A condition that begins now.
pub(super) fn new(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Condition {
    let now = written::second(now);
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

/// A condition of a replica set as one of its deployment.
pub(super) fn of_set(condition: &Condition) -> Condition {
    let condition = condition.clone();
    match condition.last_transition_time {
        Some(since) => update(condition, since),
        None => condition,
    }
}

/// Puts a condition into a list. One that says the same, in status and reason, stays as it is; one of the same status is
/// true for as long as the one before.
pub(super) fn set(conditions: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(before) = Condition::find(conditions, &condition.kind) {
        if before.status == condition.status {
            if before.reason == condition.reason {
                return;
            }
            condition.last_transition_time = before.last_transition_time;
        }
        remove(conditions, &condition.kind);
    }
    conditions.push(condition);
}

/// Takes a condition out of a list.
pub(super) fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| &*condition.kind != kind);
}

/// When a condition was last written.
pub(super) fn updated(condition: &Condition) -> Option<Timestamp> {
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
    fn a_condition_keeps_its_time_as_long_as_it_says_the_same() {
        let condition =
            |status, reason: &str, second| new(PROGRESSING, status, reason, String::new(), at(second));
        let mut list = vec![
            condition(ConditionStatus::True, "A", 1),
            new(AVAILABLE, ConditionStatus::True, "", String::new(), at(0)),
        ];
        set(&mut list, condition(ConditionStatus::True, "A", 2));
        let times = |list: &[Condition]| {
            let found = Condition::find(list, PROGRESSING).unwrap();
            (found.last_transition_time.unwrap(), updated(found).unwrap())
        };
        assert_eq!(times(&list), (at(1), at(1)));
        set(&mut list, condition(ConditionStatus::True, "B", 3));
        assert_eq!(times(&list), (at(1), at(3)));
        set(&mut list, condition(ConditionStatus::False, "B", 4));
        assert_eq!(times(&list), (at(4), at(4)));
        assert_eq!(list.len(), 2);
    }
}
