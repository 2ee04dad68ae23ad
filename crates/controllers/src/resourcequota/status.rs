//! What a quota says when all is counted.

use k3_api::{
    kinds::pod_amounts::{Totals, amounts},
    strategy::{Tree, TreeMut},
};
use serde_json::{Map, Value};

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// What is used, as far as it is known.
    pub(super) used: Totals,
    /// Why some of it is not.
    pub(super) trouble: Option<kube::Error>,
}

/// The quota with another status, if it has to have one: its limits, and what is used of them. What could not be counted
/// stays as it was.
pub(super) fn changed(quota: &Value, used: &Totals) -> Option<Value> {
    let (hard, status) = (amounts(quota.at("spec").entries("hard")), quota.at("status"));
    let before = amounts(status.entries("used"));
    let mut now = before.clone();
    now.extend(used.clone());
    now.retain(|name, _| hard.contains_key(name));
    if hard == amounts(status.entries("hard")) && now == before {
        return None;
    }
    let mut changed = quota.clone();
    let write = |amounts: &Totals| -> Map<String, Value> {
        let written = amounts.iter();
        written
            .map(|(name, amount)| (name.clone(), amount.to_string().into()))
            .collect()
    };
    let mut status = Value::Object(Map::new());
    status.set("hard", write(&hard));
    status.set("used", write(&now));
    changed.set("status", status);
    Some(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quota_says_what_is_used_of_its_limits() {
        let quota = |status: Value| json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5", "cpu": "1"}}, "status": status});
        let used = |text: Value| amounts(text.as_object().unwrap());
        for (status, counted, expected) in [
            (
                json!({}),
                json!({"pods": "1", "cpu": "0"}),
                json!({"pods": "1", "cpu": "0"}),
            ),
            // The same in other words is no change.
            (
                json!({"hard": {"pods": "5", "cpu": "1000m"}, "used": {"pods": "1", "cpu": "0.5"}}),
                json!({"pods": "1", "cpu": "500m"}),
                json!(null),
            ),
            // What nobody counts stays; what nobody limits goes.
            (
                json!({"hard": {"pods": "5", "cpu": "1"}, "used": {"pods": "2", "cpu": "1", "secrets": "3"}}),
                json!({"cpu": "0", "services": "4"}),
                json!({"pods": "2", "cpu": "0"}),
            ),
            // Limits that nobody can count are told too.
            (
                json!({"hard": {"pods": "4", "cpu": "1"}, "used": {}}),
                json!({}),
                json!({}),
            ),
        ] {
            let changed = changed(&quota(status), &used(counted));
            let found = changed
                .as_ref()
                .map_or(&Value::Null, |quota| quota.at_path("status.used"));
            assert_eq!(*found, expected);
            if let Some(changed) = changed {
                assert_eq!(*changed.at_path("status.hard"), json!({"pods": "5", "cpu": "1"}));
            }
        }
    }
}
