//! What the containers of a pod ask for in all.

use std::collections::BTreeMap;

use serde_json::Value;

use super::amount;
use crate::{quantity::Quantity, rules::Tree};

/// Amounts by the names of resources.
pub(in super::super) type Totals = BTreeMap<String, Quantity>;

/// The requests or the limits (`of`) of a pod's containers in all. Init containers run one after the other, sidecars
/// along with all that follows them, so the most of any moment counts.
pub(in super::super) fn totals(spec: &Value, of: &str) -> Totals {
    let mut total = Totals::new();
    for container in spec.items("containers") {
        add(&mut total, &list(container, of));
    }
    let mut sidecars = Totals::new();
    let mut starting = Totals::new();
    for container in spec.items("initContainers") {
        let mut own = list(container, of);
        if container.text("restartPolicy") == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut starting, &own);
        }
    }
    raise(&mut total, &starting);
    total
}

fn list(container: &Value, of: &str) -> Totals {
    let entries = container.at("resources").entries(of);
    entries
        .iter()
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

fn add(total: &mut Totals, more: &Totals) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

fn raise(total: &mut Totals, least: &Totals) {
    for (name, amount) in least {
        if total.get(name).is_none_or(|sum| sum < amount) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn init_containers_count_by_their_greatest_moment() {
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "containers": [{"resources": asks("1")}, {"resources": asks("1")}],
            "initContainers": [
                {"resources": asks("500m"), "restartPolicy": "Always"},
                {"resources": asks("3")},
            ],
        });
        assert_eq!(totals(&spec, "requests")["cpu"].to_string(), "3500m");
    }
}
