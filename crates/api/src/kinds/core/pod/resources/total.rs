//! Amounts by the names of resources, and what the containers of a pod ask for in all.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{name::suits_pod, quantity_or_zero};
use crate::{quantity::Quantity, rules::Tree};

/// Amounts by the names of resources.
pub type Totals = BTreeMap<String, Quantity>;

/// The requests or the limits (`of`) of a pod's containers in all.
pub fn totals(spec: &Value, of: &str) -> Totals {
    aggregate(spec, |container| list(container, of))
}

/// What a pod's containers have of something in all. Init containers run one after the other, sidecars along with all that
/// follows them, so the most of any moment counts.
pub fn aggregate(spec: &Value, list: impl Fn(&Value) -> Totals) -> Totals {
    let mut total = Totals::new();
    for container in spec.items("containers") {
        add(&mut total, &list(container));
    }
    let mut sidecars = Totals::new();
    let mut starting = Totals::new();
    for container in spec.items("initContainers") {
        let mut own = list(container);
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

/// What a pod asks of its node: the requests of its containers in all, or its own where it has them, and what running it costs.
pub fn requests(spec: &Value) -> Totals {
    let mut total = totals(spec, "requests");
    let own = list(spec, "requests").into_iter();
    total.extend(own.filter(|(name, _)| suits_pod(name)));
    add(&mut total, &amounts(spec.entries("overhead")));
    total
}

fn list(container: &Value, of: &str) -> Totals {
    amounts(container.at("resources").entries(of))
}

/// The amounts in a map of an object.
pub fn amounts(entries: &Map<String, Value>) -> Totals {
    entries
        .iter()
        .map(|(name, value)| (name.clone(), quantity_or_zero(value)))
        .collect()
}

/// Adds amounts to others.
pub fn add(total: &mut Totals, more: &Totals) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// Raises amounts to others where these are greater.
pub fn raise(total: &mut Totals, least: &Totals) {
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

    #[test]
    fn what_a_pod_says_itself_goes_before_its_containers_and_its_overhead_comes_on_top() {
        let mut spec = json!({
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/x": "1"}}}],
            "overhead": {"cpu": "100m"},
        });
        assert_eq!(requests(&spec)["cpu"].to_string(), "1100m");
        spec["resources"] = json!({"requests": {"cpu": "2"}});
        let asked: Vec<_> = requests(&spec).values().map(ToString::to_string).collect();
        assert_eq!(asked, ["2100m", "1", "1Gi"]);
    }
}
