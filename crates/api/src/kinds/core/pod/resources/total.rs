//! Sums of resources, and the effective requests of a pod.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests, AggregateContainerRequests

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{name::is_supported_pod_level_resource, quantity_or_zero};
use crate::{quantity::Quantity, strategy::Tree};

/// Quantities by resource name.
pub type Totals = BTreeMap<String, Quantity>;

/// The effective requests or limits (`of`) of the containers of a pod.
pub fn totals(spec: &Value, of: &str) -> Totals {
    aggregate(spec, |container| list(container, of))
}

/// The effective amount over the containers of a pod. Init containers run one after the other, sidecars along with all that follow
/// them, so the maximum over time counts.
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

/// What a pod requests of its node: pod-level requests where set, else those of its containers, plus overhead.
pub fn requests(spec: &Value) -> Totals {
    let mut total = totals(spec, "requests");
    let own = list(spec, "requests").into_iter();
    total.extend(own.filter(|(name, _)| is_supported_pod_level_resource(name)));
    add(&mut total, &amounts(spec.entries("overhead")));
    total
}

fn list(container: &Value, of: &str) -> Totals {
    amounts(container.at("resources").entries(of))
}

/// Parses the quantities of a map.
pub fn amounts(entries: &Map<String, Value>) -> Totals {
    entries
        .iter()
        .map(|(name, value)| (name.clone(), quantity_or_zero(value)))
        .collect()
}

/// Adds quantities to a total.
pub fn add(total: &mut Totals, more: &Totals) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => drop(total.insert(name.clone(), amount.clone())),
        }
    }
}

/// Raises quantities of a total to at least these.
pub fn raise(total: &mut Totals, minimum: &Totals) {
    for (name, amount) in minimum {
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
    fn init_containers_count_by_their_maximum() {
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
    fn pod_level_requests_override_containers_and_overhead_is_added() {
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
