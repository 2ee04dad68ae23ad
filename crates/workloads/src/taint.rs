//! Taints of nodes, and the tolerations of pods.

use serde::{Deserialize, Serialize};

use crate::internable;

/// A taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    /// The name.
    pub key: Box<str>,
    /// The value; may be empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Box<str>,
    /// How: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Box<str>,
    /// Since when, as it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Box<str>>,
}

/// Tolerates a taint, or several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The name of the taint; empty for all.
    pub key: Box<str>,
    /// How the value is compared: `Exists`, or `Equal`, which may be left out.
    pub operator: Box<str>,
    /// The value.
    pub value: Box<str>,
    /// The effect; empty for all.
    pub effect: Box<str>,
    /// For how long; unlimited if not set.
    pub toleration_seconds: Option<i64>,
}

internable!(Taint, Toleration);

// --- Taint ---

impl Taint {
    /// New pods are not scheduled.
    pub const NO_SCHEDULE: &str = "NoSchedule";
    /// Other nodes are preferred.
    pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";
    /// New pods are not scheduled, and running ones are evicted.
    pub const NO_EXECUTE: &str = "NoExecute";

    /// Whether one of these tolerations tolerates it.
    // upstream: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go TolerationsTolerateTaint
    pub fn is_tolerated_by(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| toleration.tolerates(self))
    }
}

// --- Toleration ---

impl Toleration {
    /// Whether it tolerates a taint.
    // upstream: staging/src/k8s.io/api/core/v1/toleration.go ToleratesTaint
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let matches = |ours: &str, theirs: &str| ours.is_empty() || ours == theirs;
        matches(&self.effect, &taint.effect)
            && matches(&self.key, &taint.key)
            && match &*self.operator {
                "Exists" => true,
                "" | "Equal" => self.value == taint.value,
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn toleration_matches_taints() {
        let taint = Taint {
            key: "k".into(),
            value: "v".into(),
            effect: "NoExecute".into(),
            time_added: None,
        };
        let cases = [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "other", "operator": "Exists"}), false),
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}),
                true,
            ),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}),
                false,
            ),
            (json!({"key": "k", "operator": "Gt", "value": "v"}), false),
        ];
        for (toleration, bears) in cases {
            let read: Toleration = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(read.tolerates(&taint), bears, "{toleration}");
        }
    }
}
