//! QoS class of a pod.
// upstream: pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS

use serde_json::Value;

use super::resources::{is_supported_pod_level_resource, quantity_or_zero};
use crate::strategy::Tree;

const BURSTABLE: &str = "Burstable";
const BEST_EFFORT: &str = "BestEffort";

/// Computes the QoS class: from pod-level resources if there are any, else from all containers.
pub(super) fn compute_pod_qos(spec: &Value) -> &'static str {
    let whole = spec.at("resources");
    let names = || {
        whole
            .entries("requests")
            .keys()
            .chain(whole.entries("limits").keys())
    };
    if names().any(|name| is_supported_pod_level_resource(name)) {
        return qos_of_requirements(whole);
    }
    let containers = spec
        .items("initContainers")
        .iter()
        .chain(spec.items("containers"));
    combine_classes(containers.map(|container| qos_of_requirements(container.at("resources"))))
}

fn qos_of_requirements(requirements: &Value) -> &'static str {
    if requirements.entries("requests").is_empty() && requirements.entries("limits").is_empty() {
        return BEST_EFFORT;
    }
    combine_classes(["cpu", "memory"].into_iter().map(|name| {
        let request = quantity_or_zero(requirements.at("requests").at(name));
        let limit = quantity_or_zero(requirements.at("limits").at(name));
        if request != limit {
            BURSTABLE
        } else if request.is_zero() {
            BEST_EFFORT
        } else {
            "Guaranteed"
        }
    }))
}

fn combine_classes(mut classes: impl Iterator<Item = &'static str>) -> &'static str {
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
    fn class_depends_on_all_containers() {
        let full =
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
        let of = |list: &[&Value]| {
            let containers: Vec<_> = list.iter().map(|r| json!({"resources": r})).collect();
            compute_pod_qos(&json!({"containers": containers}))
        };
        assert_eq!(of(&[&full, &full]), "Guaranteed");
        assert_eq!(of(&[&full, &json!({})]), "Burstable");
        assert_eq!(of(&[&json!({})]), "BestEffort");
        assert_eq!(of(&[&json!({"limits": {"example.com/x": "1"}})]), "BestEffort");
        assert_eq!(
            compute_pod_qos(&json!({"containers": [{}], "resources": full})),
            "Guaranteed"
        );
    }
}
