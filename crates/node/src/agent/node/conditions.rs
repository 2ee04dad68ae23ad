//! Conditions of the Node: Ready, `MemoryPressure`, `DiskPressure`, `PIDPressure`.
// upstream: pkg/kubelet/nodestatus/setters.go ReadyCondition, MemoryPressureCondition, DiskPressureCondition, PIDPressureCondition

use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

/// Pressure conditions that hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct NodePressures {
    pub(in crate::agent) memory: bool,
    pub(in crate::agent) disk: bool,
    pub(in crate::agent) pid: bool,
}

/// A pressure condition; reason, message and event by status.
struct PressureCondition {
    kind: &'static str,
    when_true: [&'static str; 3],
    when_false: [&'static str; 3],
}

const PRESSURE_CONDITIONS: [PressureCondition; 3] = [
    PressureCondition {
        kind: "MemoryPressure",
        when_true: [
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
            "NodeHasInsufficientMemory",
        ],
        when_false: [
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
            "NodeHasSufficientMemory",
        ],
    },
    PressureCondition {
        kind: "DiskPressure",
        when_true: [
            "KubeletHasDiskPressure",
            "kubelet has disk pressure",
            "NodeHasDiskPressure",
        ],
        when_false: [
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
            "NodeHasNoDiskPressure",
        ],
    },
    PressureCondition {
        kind: "PIDPressure",
        when_true: [
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
            "NodeHasInsufficientPID",
        ],
        when_false: [
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
            "NodeHasSufficientPID",
        ],
    },
];

const READY: &str = "Ready";

/// Types of the conditions that this agent writes.
pub(super) const OWN_CONDITIONS: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", READY];

/// Updates the conditions. Returns the reasons of the events to record.
pub(super) fn update_conditions(
    conditions: &mut Vec<NodeCondition>,
    pressures: NodePressures,
    problems: &[String],
    now: Timestamp,
) -> Vec<&'static str> {
    let mut events = Vec::new();
    let statuses = [pressures.memory, pressures.disk, pressures.pid];
    for (pressure, exists) in PRESSURE_CONDITIONS.iter().zip(statuses) {
        let (status, [reason, message, event]) = if exists {
            ("True", pressure.when_true)
        } else {
            ("False", pressure.when_false)
        };
        let condition = find_or_insert(conditions, pressure.kind);
        if set_status(condition, status, reason, message, now) {
            events.push(event);
        }
    }
    let existed = conditions.iter().any(|condition| condition.type_ == READY);
    let is_ready = problems.is_empty();
    let (status, reason, message) = if is_ready {
        (
            "True",
            "KubeletReady",
            "kubelet is posting ready status".to_owned(),
        )
    } else {
        ("False", "KubeletNotReady", join_problems(problems))
    };
    let ready = find_or_insert(conditions, READY);
    let has_changed = set_status(ready, status, reason, &message, now);
    // Unlike for the other conditions, reason and message may change while the status stays.
    ready.reason = Some(reason.to_owned());
    ready.message = Some(message);
    // A new Node counts as not ready: no event if that does not change.
    if has_changed && (existed || is_ready) {
        events.push(if is_ready { "NodeReady" } else { "NodeNotReady" });
    }
    events
}

/// The condition of a type; inserted if missing.
fn find_or_insert<'c>(conditions: &'c mut Vec<NodeCondition>, kind: &str) -> &'c mut NodeCondition {
    let index = conditions.iter().position(|condition| condition.type_ == kind);
    let index = index.unwrap_or_else(|| {
        conditions.push(NodeCondition {
            type_: kind.to_owned(),
            status: "Unknown".to_owned(),
            ..NodeCondition::default()
        });
        conditions.len() - 1
    });
    &mut conditions[index]
}

/// Sets the status, and reason and message if it changed. Returns whether it changed.
fn set_status(
    condition: &mut NodeCondition,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
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

/// Joins messages like upstream's aggregated errors: `[a, b]`.
fn join_problems(problems: &[String]) -> String {
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
    fn updates_conditions_and_returns_events() {
        let mut conditions = Vec::new();
        let problem = vec!["no runtime".to_owned()];
        let events = update_conditions(&mut conditions, NodePressures::default(), &problem, at(1));
        assert_eq!(
            events,
            [
                "NodeHasSufficientMemory",
                "NodeHasNoDiskPressure",
                "NodeHasSufficientPID"
            ]
        );
        let kinds: Vec<_> = conditions
            .iter()
            .map(|condition| condition.type_.as_str())
            .collect();
        assert_eq!(kinds, OWN_CONDITIONS);
        assert_eq!(conditions[3].reason.as_deref(), Some("KubeletNotReady"));
        assert_eq!(conditions[3].message.as_deref(), Some("no runtime"));

        assert_eq!(
            update_conditions(&mut conditions, NodePressures::default(), &[], at(2)),
            ["NodeReady"]
        );
        let pressures = NodePressures {
            memory: true,
            ..NodePressures::default()
        };
        assert_eq!(
            update_conditions(&mut conditions, pressures, &[], at(3)),
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
            update_conditions(&mut conditions, pressures, &problems, at(4)),
            ["NodeNotReady"]
        );
        assert_eq!(conditions[3].message.as_deref(), Some("[a, b]"));
        assert!(update_conditions(&mut conditions, pressures, &problem, at(5)).is_empty());
        assert_eq!(conditions[3].message.as_deref(), Some("no runtime"));
        assert_eq!(conditions[3].last_transition_time, Some(Time(at(4))));
    }

    #[test]
    fn new_ready_node_records_event() {
        let events = update_conditions(&mut Vec::new(), NodePressures::default(), &[], at(1));
        assert_eq!(events.last(), Some(&"NodeReady"));
    }

    #[test]
    fn keeps_conditions_of_other_writers() {
        let other = NodeCondition {
            type_: "NetworkUnavailable".to_owned(),
            status: "False".to_owned(),
            ..NodeCondition::default()
        };
        let mut conditions = vec![other.clone()];
        update_conditions(&mut conditions, NodePressures::default(), &[], at(1));
        assert_eq!(conditions[0], other);
        assert_eq!(conditions.len(), 5);
    }
}
