//! Tolerations, and the taints that they tolerate.

use serde::{Deserialize, Deserializer};

use super::{SharedList, Taint};

/// Bears a taint, or a kind of them.
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

super::intern::internable!(Toleration);

// --- Toleration ---

impl Toleration {
    /// Whether it bears a taint.
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

/// The tolerations of a pod that could let it stay where a taint drives pods away.
pub(super) fn no_execute_tolerations<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<SharedList<Toleration>, D::Error> {
    let mut written = Option::<Vec<Toleration>>::deserialize(from)?.unwrap_or_default();
    written.retain(|toleration| ["", "NoExecute"].contains(&&*toleration.effect));
    Ok(written.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tolerations(from: serde_json::Value) -> SharedList<Toleration> {
        no_execute_tolerations(from).unwrap()
    }

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

    #[test]
    fn interns_no_execute_tolerations_only() {
        let written =
            json!([{"key": "a"}, {"key": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}]);
        let one = tolerations(written.clone());
        let other = tolerations(written);
        assert_eq!(one.len(), 2);
        assert!(std::ptr::eq(&raw const *one, &raw const *other));
        assert!(tolerations(json!(null)).is_empty() && tolerations(json!([])).is_empty());
    }
}
