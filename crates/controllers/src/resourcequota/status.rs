//! The status of a quota after counting.

use k3_api::{
    kinds::pod_amounts::{Totals, amounts},
    strategy::{Tree, TreeMut},
};
use serde_json::{Map, Value};

/// The result of counting.
#[derive(Debug, Default)]
pub(super) struct CountResult {
    /// Usage, as far as it is known.
    pub(super) used: Totals,
    /// Why a part is unknown.
    pub(super) error: Option<kube::Error>,
}

/// The quota with a new status, if it changes: hard limits and usage. Usage that could not be counted is kept.
// upstream: pkg/controller/resourcequota/resource_quota_controller.go syncResourceQuota
pub(super) fn with_new_status(quota: &Value, used: &Totals) -> Option<Value> {
    let hard = amounts(quota.at("spec").entries("hard"));
    let status = quota.at("status");
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
    fn computes_quota_status() {
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
            // Usage that was not counted is kept; usage without a limit is removed.
            (
                json!({"hard": {"pods": "5", "cpu": "1"}, "used": {"pods": "2", "cpu": "1", "secrets": "3"}}),
                json!({"cpu": "0", "services": "4"}),
                json!({"pods": "2", "cpu": "0"}),
            ),
            // Limits that cannot be counted are reported too.
            (
                json!({"hard": {"pods": "4", "cpu": "1"}, "used": {}}),
                json!({}),
                json!({}),
            ),
        ] {
            let changed = with_new_status(&quota(status), &used(counted));
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
