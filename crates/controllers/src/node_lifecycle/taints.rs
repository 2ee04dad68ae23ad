//! Taints derived from node conditions.

use k3_workloads::{Condition, ConditionStatus, Node, Taint};
use k8s_openapi::jiff::Timestamp;

use super::zones::DisruptionMode;
use crate::patch_values::truncate_to_second;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Condition type, status, and the NoSchedule taint.
const BY_CONDITION: &[(&str, ConditionStatus, &str)] = &[
    ("Ready", ConditionStatus::False, NOT_READY),
    ("Ready", ConditionStatus::Unknown, UNREACHABLE),
    (
        "MemoryPressure",
        ConditionStatus::True,
        "node.kubernetes.io/memory-pressure",
    ),
    (
        "DiskPressure",
        ConditionStatus::True,
        "node.kubernetes.io/disk-pressure",
    ),
    (
        "NetworkUnavailable",
        ConditionStatus::True,
        "node.kubernetes.io/network-unavailable",
    ),
    (
        "PIDPressure",
        ConditionStatus::True,
        "node.kubernetes.io/pid-pressure",
    ),
];

/// Change of the NoExecute taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoExecuteChange {
    /// Keep them as they are.
    Keep,
    /// Remove them.
    Remove,
    /// Keep this one.
    KeepOne(&'static str),
    /// Add this one when the zone's rate limit allows it.
    AddWhenAllowed(&'static str),
}

// --- NoExecuteChange ---

impl NoExecuteChange {
    /// From a node.
    // upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go processTaintBaseEviction
    pub(super) fn of(node: &Node, disruption: DisruptionMode) -> Self {
        let key = match node.condition("Ready") {
            _ if disruption == DisruptionMode::Master => return NoExecuteChange::Remove,
            None => return NoExecuteChange::Keep,
            Some(ConditionStatus::True) => return NoExecuteChange::Remove,
            Some(ConditionStatus::False) => NOT_READY,
            Some(ConditionStatus::Unknown) => UNREACHABLE,
        };
        if node.spec.taints.iter().any(is_no_execute) {
            NoExecuteChange::KeepOne(key)
        } else {
            NoExecuteChange::AddWhenAllowed(key)
        }
    }
}

/// The desired taints; `None` if nothing changes. `eviction` is the NoExecute taint, if there should be one.
// upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go doNoScheduleTaintingPass, doNoExecuteTaintingPass
pub(super) fn desired(node: &Node, eviction: NoExecuteChange, now: Timestamp) -> Option<Vec<Taint>> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for condition in &node.status.conditions {
        let taint = BY_CONDITION.iter().find(|(kind, status, _)| {
            let Condition {
                kind: is,
                status: holds,
                ..
            } = condition;
            **is == **kind && holds == status
        });
        wanted.extend(taint.map(|(_, _, key)| (*key, NO_SCHEDULE)));
    }
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    if let NoExecuteChange::KeepOne(key) = eviction {
        wanted.push((key, NO_EXECUTE));
    }
    let keeps_evicting = matches!(
        eviction,
        NoExecuteChange::Keep | NoExecuteChange::AddWhenAllowed(_)
    );
    let stays = |taint: &&Taint| {
        let is_foreign = !is_no_schedule(taint) && !is_no_execute(taint);
        is_foreign
            || keeps_evicting && is_no_execute(taint)
            || wanted.contains(&(&*taint.key, &*taint.effect))
    };
    let mut taints: Vec<Taint> = node.spec.taints.iter().filter(stays).cloned().collect();
    for (key, effect) in wanted {
        let is_there = |taint: &Taint| &*taint.key == key && &*taint.effect == effect;
        if !taints.iter().any(is_there) {
            taints.push(Taint {
                key: key.into(),
                effect: effect.into(),
                time_added: Some(truncate_to_second(now).to_string().into()),
                ..Taint::default()
            });
        }
    }
    (*taints != *node.spec.taints).then_some(taints)
}

/// Whether it is a NoSchedule taint of this controller.
fn is_no_schedule(taint: &Taint) -> bool {
    let is_ours = |key: &str| key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, ours)| *ours == key);
    &*taint.effect == NO_SCHEDULE && is_ours(&taint.key)
}

/// Whether it is a NoExecute taint of this controller.
fn is_no_execute(taint: &Taint) -> bool {
    &*taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&&*taint.key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A node with `conditions` such as `Ready=False` and `taints` such as `not-ready:NoExecute`.
    fn node(conditions: &[&str], taints: &[&str]) -> Node {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|text| {
                let (kind, status) = text.split_once('=').unwrap();
                json!({"type": kind, "status": status})
            })
            .collect();
        let taints: Vec<_> = taints
            .iter()
            .map(|text| {
                let (key, effect) = text.split_once(':').unwrap();
                json!({"key": long(key), "effect": effect, "timeAdded": "2020-01-01T00:00:00Z"})
            })
            .collect();
        let node = json!({"spec": {"taints": taints}, "status": {"conditions": conditions}});
        serde_json::from_value(node).unwrap()
    }

    fn long(key: &str) -> String {
        let ours = BY_CONDITION.iter().any(|(_, _, ours)| ours.ends_with(key));
        if ours || key == "unschedulable" {
            format!("node.kubernetes.io/{key}")
        } else {
            key.to_owned()
        }
    }

    fn texts(taints: &[Taint]) -> Vec<String> {
        let text = |taint: &Taint| format!("{}:{}", taint.key.rsplit('/').next().unwrap(), taint.effect);
        taints.iter().map(text).collect()
    }

    #[test]
    fn no_schedule_taints_follow_conditions() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        #[expect(clippy::type_complexity, reason = "a table of cases")]
        let cases: &[(&[&str], &[&str], bool, Option<&[&str]>)] = &[
            (&["Ready=True"], &[], false, None),
            (
                &["Ready=True"],
                &["not-ready:NoSchedule", "mine:NoSchedule"],
                false,
                Some(&["mine:NoSchedule"]),
            ),
            (
                &[],
                &["not-ready:NoSchedule", "not-ready:NoExecute"],
                false,
                Some(&["not-ready:NoExecute"]),
            ),
            (&["Ready=False"], &[], false, Some(&["not-ready:NoSchedule"])),
            (
                &["Ready=Unknown"],
                &["not-ready:NoSchedule"],
                false,
                Some(&["unreachable:NoSchedule"]),
            ),
            (
                &[
                    "Ready=True",
                    "MemoryPressure=True",
                    "DiskPressure=True",
                    "PIDPressure=True",
                    "NetworkUnavailable=True",
                ],
                &["mine:NoExecute"],
                true,
                Some(&[
                    "mine:NoExecute",
                    "memory-pressure:NoSchedule",
                    "disk-pressure:NoSchedule",
                    "pid-pressure:NoSchedule",
                    "network-unavailable:NoSchedule",
                    "unschedulable:NoSchedule",
                ]),
            ),
            (
                &["MemoryPressure=Unknown"],
                &[
                    "unschedulable:NoSchedule",
                    "memory-pressure:NoSchedule",
                    "memory-pressure:PreferNoSchedule",
                ],
                false,
                Some(&["memory-pressure:PreferNoSchedule"]),
            ),
        ];
        for (conditions, taints, unschedulable, expected) in cases {
            let mut node = node(conditions, taints);
            node.spec.unschedulable = *unschedulable;
            let wanted = desired(&node, NoExecuteChange::Keep, now);
            let expected = expected.map(|texts| texts.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(
                wanted.as_deref().map(texts),
                expected,
                "{conditions:?} {taints:?}"
            );
        }
    }

    #[test]
    fn no_execute_taints_respect_the_rate_limit() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let has = ["not-ready:NoSchedule", "not-ready:NoExecute"];
        #[expect(clippy::type_complexity, reason = "a table of cases")]
        let cases: &[(&str, &[&str], DisruptionMode, NoExecuteChange, Option<&[&str]>)] = &[
            (
                "Ready=False",
                &has[..1],
                DisruptionMode::Normal,
                NoExecuteChange::AddWhenAllowed(NOT_READY),
                None,
            ),
            (
                "Ready=False",
                &has,
                DisruptionMode::Normal,
                NoExecuteChange::KeepOne(NOT_READY),
                None,
            ),
            (
                "Ready=Unknown",
                &has,
                DisruptionMode::Normal,
                NoExecuteChange::KeepOne(UNREACHABLE),
                Some(&["unreachable:NoSchedule", "unreachable:NoExecute"]),
            ),
            (
                "Ready=False",
                &has,
                DisruptionMode::Master,
                NoExecuteChange::Remove,
                Some(&has[..1]),
            ),
            (
                "Ready=True",
                &has,
                DisruptionMode::Normal,
                NoExecuteChange::Remove,
                Some(&[]),
            ),
            (
                "Other=True",
                &has[1..],
                DisruptionMode::Normal,
                NoExecuteChange::Keep,
                None,
            ),
        ];
        for (condition, taints, disruption, eviction, expected) in cases {
            let node = node(&[condition], taints);
            assert_eq!(NoExecuteChange::of(&node, *disruption), *eviction, "{condition}");
            let expected = expected.map(|texts| texts.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(desired(&node, *eviction, now).as_deref().map(texts), expected);
        }
        let tainted = desired(
            &node(&["Ready=False"], &[]),
            NoExecuteChange::KeepOne(NOT_READY),
            now,
        )
        .unwrap();
        assert_eq!(texts(&tainted), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
        assert_eq!(tainted[1].time_added.as_deref(), Some("2026-01-01T00:00:00Z"));
    }
}
