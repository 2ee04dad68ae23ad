//! Which taints a pod bears.

use std::{
    collections::HashSet,
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer};

use super::Taint;

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
    /// For how long; for ever if not said.
    pub toleration_seconds: Option<i64>,
}

/// The tolerations of a pod that could let it stay where a taint drives pods away. Nearly all pods have the same ones: these
/// are kept once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tolerations(Option<Arc<[Toleration]>>);

/// All that there are. Those that nobody has any more are thrown out when there seem to be many.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Known {
    sets: HashSet<Arc<[Toleration]>>,
    /// How many there were after the last throwing out.
    left: usize,
}

// --- Toleration ---

impl Toleration {
    /// Whether it bears a taint.
    pub fn bears(&self, taint: &Taint) -> bool {
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

// --- Tolerations ---

impl Tolerations {
    /// The shared form of tolerations.
    pub fn new(tolerations: Vec<Toleration>) -> Self {
        const FEW: usize = 64;
        if tolerations.is_empty() {
            return Tolerations(None);
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.sets.get(&*tolerations) {
            return Tolerations(Some(Arc::clone(same)));
        }
        if known.sets.len() >= FEW.max(2 * known.left) {
            known.sets.retain(|set| Arc::strong_count(set) > 1);
            known.left = known.sets.len();
        }
        let new: Arc<[Toleration]> = tolerations.into();
        known.sets.insert(Arc::clone(&new));
        Tolerations(Some(new))
    }
}

impl Deref for Tolerations {
    type Target = [Toleration];

    fn deref(&self) -> &[Toleration] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Tolerations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

impl<'de> Deserialize<'de> for Tolerations {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut written = Option::<Vec<Toleration>>::deserialize(from)?.unwrap_or_default();
        written.retain(|toleration| ["", "NoExecute"].contains(&&*toleration.effect));
        Ok(Tolerations::new(written))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tolerations(from: serde_json::Value) -> Tolerations {
        serde_json::from_value(from).unwrap()
    }

    #[test]
    fn a_toleration_bears_what_it_names() {
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
            assert_eq!(read.bears(&taint), bears, "{toleration}");
        }
    }

    #[test]
    fn equal_tolerations_are_kept_once_and_others_not_at_all() {
        let written =
            json!([{"key": "a"}, {"key": "b", "effect": "NoSchedule"}, {"key": "c", "effect": "NoExecute"}]);
        let (one, other) = (tolerations(written.clone()), tolerations(written));
        assert_eq!(one.len(), 2);
        assert!(Arc::ptr_eq(one.0.as_ref().unwrap(), other.0.as_ref().unwrap()));
        assert!(tolerations(json!(null)).is_empty() && tolerations(json!([])).0.is_none());
    }
}
