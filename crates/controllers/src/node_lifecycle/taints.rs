//! Which taints a node has because of what it says of itself.

use k8s_openapi::jiff::Timestamp;

use crate::{
    objects::{Condition, ConditionStatus, Node, Taint},
    patch_values::truncate_to_second,
};

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Condition, its status, and the taint that keeps new pods away.
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

/// What is to become of the taints that drive pods away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// They stay as they are.
    Leave,
    /// There is to be none.
    End,
    /// There is one, and this is to be it.
    Have(&'static str),
    /// There is none, and this is to come when it is the node's turn.
    Ask(&'static str),
}

// --- Eviction ---

impl Eviction {
    /// What a node calls for. Nobody is driven away while all nodes seem to be down: then it is rather the network that is.
    pub(super) fn of(node: &Node, is_stopped: bool) -> Self {
        let key = match node.condition("Ready") {
            _ if is_stopped => return Eviction::End,
            None => return Eviction::Leave,
            Some(ConditionStatus::True) => return Eviction::End,
            Some(ConditionStatus::False) => NOT_READY,
            Some(ConditionStatus::Unknown) => UNREACHABLE,
        };
        if node.spec.taints.iter().any(is_evicting) {
            Eviction::Have(key)
        } else {
            Eviction::Ask(key)
        }
    }
}

/// The taints that a node is to have; `None` if it has them. `eviction` is the taint that drives pods away, if there is to be
/// one.
pub(super) fn wanted(node: &Node, eviction: Eviction, now: Timestamp) -> Option<Vec<Taint>> {
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
    if let Eviction::Have(key) = eviction {
        wanted.push((key, NO_EXECUTE));
    }
    let keeps_evicting = matches!(eviction, Eviction::Leave | Eviction::Ask(_));
    let stays = |taint: &&Taint| {
        let is_foreign = !is_keeping_away(taint) && !is_evicting(taint);
        is_foreign || keeps_evicting && is_evicting(taint) || wanted.contains(&(&*taint.key, &*taint.effect))
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
    (taints != node.spec.taints).then_some(taints)
}

/// Whether it is one of ours that keep new pods away.
fn is_keeping_away(taint: &Taint) -> bool {
    let is_ours = |key: &str| key == UNSCHEDULABLE || BY_CONDITION.iter().any(|(_, _, ours)| *ours == key);
    &*taint.effect == NO_SCHEDULE && is_ours(&taint.key)
}

/// Whether it is one of ours that drive pods away.
fn is_evicting(taint: &Taint) -> bool {
    &*taint.effect == NO_EXECUTE && [NOT_READY, UNREACHABLE].contains(&&*taint.key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A node with `conditions` such as `Ready=False` and `taints` such as `not-ready:NoExecute`.
    fn node(conditions: &[&str], taints: &[&str], unschedulable: bool) -> Node {
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
        let node = json!({"spec": {"taints": taints, "unschedulable": unschedulable}, "status": {"conditions": conditions}});
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
    fn taints_that_keep_away_follow_conditions() {
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
            let wanted = wanted(&node(conditions, taints, *unschedulable), Eviction::Leave, now);
            let expected = expected.map(|texts| texts.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(
                wanted.as_deref().map(texts),
                expected,
                "{conditions:?} {taints:?}"
            );
        }
    }

    #[test]
    fn taints_that_drive_away_follow_the_turn_of_the_node() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let has = ["not-ready:NoSchedule", "not-ready:NoExecute"];
        #[expect(clippy::type_complexity, reason = "a table of cases")]
        let cases: &[(&str, &[&str], bool, Eviction, Option<&[&str]>)] = &[
            ("Ready=False", &has[..1], false, Eviction::Ask(NOT_READY), None),
            ("Ready=False", &has, false, Eviction::Have(NOT_READY), None),
            (
                "Ready=Unknown",
                &has,
                false,
                Eviction::Have(UNREACHABLE),
                Some(&["unreachable:NoSchedule", "unreachable:NoExecute"]),
            ),
            ("Ready=False", &has, true, Eviction::End, Some(&has[..1])),
            ("Ready=True", &has, false, Eviction::End, Some(&[])),
            ("Other=True", &has[1..], false, Eviction::Leave, None),
        ];
        for (condition, taints, is_stopped, eviction, expected) in cases {
            let node = node(&[condition], taints, false);
            assert_eq!(Eviction::of(&node, *is_stopped), *eviction, "{condition}");
            let expected = expected.map(|texts| texts.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(wanted(&node, *eviction, now).as_deref().map(texts), expected);
        }
        let tainted = wanted(
            &node(&["Ready=False"], &[], false),
            Eviction::Have(NOT_READY),
            now,
        )
        .unwrap();
        assert_eq!(texts(&tainted), ["not-ready:NoSchedule", "not-ready:NoExecute"]);
        assert_eq!(tainted[1].time_added.as_deref(), Some("2026-01-01T00:00:00Z"));
    }
}
