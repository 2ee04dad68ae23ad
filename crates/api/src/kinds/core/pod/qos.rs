//! The quality of service a pod gets, which follows from what it asks for.

use serde_json::Value;

use super::resources::{quantity_or_zero, suits_pod};
use crate::rules::Tree;

const BURSTABLE: &str = "Burstable";
const BEST_EFFORT: &str = "BestEffort";

/// The class of a pod with this spec. What the pod as a whole asks for counts, else what each container does: the pod is
/// only as good as all of them are.
pub(super) fn class(spec: &Value) -> &'static str {
    let whole = spec.at("resources");
    let names = || {
        whole
            .entries("requests")
            .keys()
            .chain(whole.entries("limits").keys())
    };
    if names().any(|name| suits_pod(name)) {
        return of_requirements(whole);
    }
    let containers = spec
        .items("initContainers")
        .iter()
        .chain(spec.items("containers"));
    combined(containers.map(|container| of_requirements(container.at("resources"))))
}

fn of_requirements(requirements: &Value) -> &'static str {
    if requirements.entries("requests").is_empty() && requirements.entries("limits").is_empty() {
        return BEST_EFFORT;
    }
    combined(["cpu", "memory"].into_iter().map(|name| {
        let asked = quantity_or_zero(requirements.at("requests").at(name));
        let limit = quantity_or_zero(requirements.at("limits").at(name));
        if asked != limit {
            BURSTABLE
        } else if asked.is_zero() {
            BEST_EFFORT
        } else {
            "Guaranteed"
        }
    }))
}

fn combined(mut classes: impl Iterator<Item = &'static str>) -> &'static str {
    let Some(first) = classes.next() else {
        return BEST_EFFORT;
    };
    if classes.all(|class| class == first) {
        first
    } else {
        BURSTABLE
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_as_good_as_all_its_containers() {
        let full =
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        let of = |list: &[&Value]| {
            let containers: Vec<_> = list.iter().map(|r| json!({"resources": r})).collect();
            class(&json!({"containers": containers}))
        };
        assert_eq!(of(&[&full, &full]), "Guaranteed");
        assert_eq!(of(&[&full, &json!({})]), "Burstable");
        assert_eq!(of(&[&json!({})]), "BestEffort");
        assert_eq!(of(&[&json!({"limits": {"example.com/x": "1"}})]), "BestEffort");
        assert_eq!(
            class(&json!({"containers": [{}], "resources": full})),
            "Guaranteed"
        );
    }
}
