//! How a node is, in its own words.

use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

/// What a node is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct Pressures {
    pub(in crate::agent) memory: bool,
    pub(in crate::agent) disk: bool,
    pub(in crate::agent) processes: bool,
}

/// A condition that tells of a shortage: its type; the reason, message and event while there is one; and while there is none.
struct Shortage {
    kind: &'static str,
    short: [&'static str; 3],
    enough: [&'static str; 3],
}

const SHORTAGES: [Shortage; 3] = [
    Shortage {
        kind: "MemoryPressure",
        short: [
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ],
        enough: [
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ],
    },
    Shortage {
        kind: "DiskPressure",
        short: [
            "KubeletHasDiskPressure",
            "kubelet has disk pressure",
            "NodeHasDiskPressure",
        ],
        enough: [
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
            "NodeHasNoDiskPressure",
        ],
    },
    Shortage {
        kind: "PIDPressure",
        short: [
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
            "NodeHasInsufficientPID",
        ],
        enough: [
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
            "NodeHasSufficientPID",
        ],
    },
];

const READY: &str = "Ready";

/// The types of the conditions that are ours.
pub(super) const OWN: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", READY];

/// Brings our conditions up to date, and tells which events that is.
pub(super) fn renew(
    conditions: &mut Vec<NodeCondition>,
    pressures: Pressures,
    problems: &[String],
    now: Timestamp,
) -> Vec<&'static str> {
    let mut events = Vec::new();
    let held = [pressures.memory, pressures.disk, pressures.processes];
    for (shortage, held) in SHORTAGES.iter().zip(held) {
        let [reason, message, event] = if held { shortage.short } else { shortage.enough };
        let condition = find(conditions, shortage.kind);
        if set(condition, held, reason, message, now) {
            events.push(event);
        }
    }
    let was_there = conditions.iter().any(|known| known.type_ == READY);
    let is_ready = problems.is_empty();
    let (reason, message) = if is_ready {
        ("KubeletReady", "kubelet is posting ready status".to_owned())
    } else {
        ("KubeletNotReady", together(problems))
    };
    let ready = find(conditions, READY);
    let has_changed = set(ready, is_ready, reason, &message, now);
    // Unlike the others, why it is so may change while it stays so.
    ready.reason = Some(reason.to_owned());
    ready.message = Some(message);
    // A node that registers itself is not ready yet, whether that was ever written or not.
    if has_changed && (was_there || is_ready) {
        events.push(if is_ready { "NodeReady" } else { "NodeNotReady" });
    }
    events
}

/// A condition; made if it is not there. Ready stays the last that is made.
fn find<'c>(conditions: &'c mut Vec<NodeCondition>, kind: &str) -> &'c mut NodeCondition {
    let place = conditions.iter().position(|known| known.type_ == kind);
    let place = place.unwrap_or_else(|| {
        conditions.push(NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            ..NodeCondition::default()
        });
        conditions.len() - 1
    });
    &mut conditions[place]
}

/// Whether it was not so before.
fn set(condition: &mut NodeCondition, holds: bool, reason: &str, message: &str, now: Timestamp) -> bool {
    let status = if holds { "True" } else { "False" };
    condition.last_heartbeat_time = Some(Time(now));
    if condition.status == status {
        return false;
    }
    status.clone_into(&mut condition.status);
    condition.reason = Some(reason.to_owned());
    condition.message = Some(message.to_owned());
    condition.last_transition_time = Some(Time(now));
    true
}

/// Several reasons as one, as upstream writes them.
fn together(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn conditions_change_with_the_node_and_tell_of_it() {
        let mut conditions = Vec::new();
        let problem = vec!["no runtime".to_owned()];
        let events = renew(&mut conditions, Pressures::default(), &problem, at(1));
        assert_eq!(
            events,
            [
                "NodeHasSufficientMemory",
                "NodeHasNoDiskPressure",
                "NodeHasSufficientPID"
            ]
        );
        let kinds: Vec<_> = conditions.iter().map(|known| known.type_.as_str()).collect();
        assert_eq!(kinds, OWN);
        assert_eq!(conditions[3].reason.as_deref(), Some("KubeletNotReady"));
        assert_eq!(conditions[3].message.as_deref(), Some("no runtime"));

        assert_eq!(
            renew(&mut conditions, Pressures::default(), &[], at(2)),
            ["NodeReady"]
        );
        let pressures = Pressures {
            memory: true,
            ..Pressures::default()
        };
        assert_eq!(
            renew(&mut conditions, pressures, &[], at(3)),
            ["NodeHasInsufficientMemory"]
        );
        let memory = &conditions[0];
        assert_eq!(
            (memory.status.as_str(), memory.reason.as_deref()),
            ("True", Some("KubeletHasInsufficientMemory"))
        );
        assert_eq!(memory.last_transition_time, Some(Time(at(3))));
        assert_eq!(conditions[1].last_transition_time, Some(Time(at(1))));
        assert_eq!(conditions[1].last_heartbeat_time, Some(Time(at(3))));

        let problems = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(
            renew(&mut conditions, pressures, &problems, at(4)),
            ["NodeNotReady"]
        );
        assert_eq!(conditions[3].message.as_deref(), Some("[a, b]"));
        assert!(renew(&mut conditions, pressures, &problem, at(5)).is_empty());
        assert_eq!(conditions[3].message.as_deref(), Some("no runtime"));
        assert_eq!(conditions[3].last_transition_time, Some(Time(at(4))));
    }

    #[test]
    fn a_node_that_is_ready_at_once_tells_it() {
        let events = renew(&mut Vec::new(), Pressures::default(), &[], at(1));
        assert_eq!(events.last(), Some(&"NodeReady"));
    }

    #[test]
    fn conditions_of_others_are_left_alone() {
        let other = NodeCondition {
            type_: "NetworkUnavailable".to_owned(),
            status: "False".to_owned(),
            ..NodeCondition::default()
        };
        let mut conditions = vec![other.clone()];
        renew(&mut conditions, Pressures::default(), &[], at(1));
        assert_eq!(conditions[0], other);
        assert_eq!(conditions.len(), 5);
    }
}
