//! `NodeDeclaredFeatureValidator`: rejects pod updates that need a feature that the node of the pod does not declare.

use k3_api::{go, status::Status, strategy::Tree};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::cache::WatchCaches;

/// Whether the change from one pod spec to another needs something.
type FeatureRequirement = fn(&Value, &Value) -> bool;

/// What nodes declare, and which changes need it.
const FEATURES: [(&str, FeatureRequirement); 2] = [
    ("InPlacePodLevelResourcesVerticalScaling", resizes_pod),
    ("InPlacePodVerticalScalingInitContainers", resizes_init_container),
];

pub(super) struct NodeFeatures;

// upstream: plugin/pkg/admission/nodedeclaredfeatures/admission.go Validate, validatePodUpdate
impl AdmissionPlugin for NodeFeatures {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && ["", "resize"].contains(&attributes.subresource)
            && attributes.is_of("", "pods");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let before = old.at("spec");
        let spec = attributes.object.at("spec");
        let name = spec.text("nodeName");
        if name.is_empty() {
            return Ok(());
        }
        let needed = FEATURES.iter().filter(|(_, needs)| needs(before, spec));
        let needed: Vec<_> = needed.map(|(feature, _)| *feature).collect();
        if needed.is_empty() {
            return Ok(());
        }
        let Some(node) = object("", "nodes", "", name, caches) else {
            return Err(attributes.forbidden(format!("node {} not found", go::quote(name))));
        };
        let declares = |feature: &&str| {
            node.at("status")
                .texts("declaredFeatures")
                .any(|known| known == *feature)
        };
        let missing: Vec<_> = needed.into_iter().filter(|feature| !declares(feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(attributes.forbidden(format!(
            "pod update requires features {} which are not available on node {}",
            missing.join(", "),
            go::quote(name)
        )))
    }
}

fn resizes_pod(old: &Value, new: &Value) -> bool {
    old.at("resources") != new.at("resources")
}

fn resizes_init_container(old: &Value, new: &Value) -> bool {
    let pairs = old
        .items("initContainers")
        .iter()
        .zip(new.items("initContainers"));
    pairs
        .filter(|(old, _)| old.text("restartPolicy") != "Always")
        .any(|(old, new)| old.at("resources") != new.at("resources"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn pod(node: &str, whole: &str, init: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"},
            "spec": {
                "nodeName": node,
                "resources": {"requests": {"cpu": whole}},
                "initContainers": [{"name": "i", "resources": {"requests": {"cpu": init}}}],
            },
        })
    }

    #[tokio::test]
    async fn rejects_update_that_needs_undeclared_node_feature() {
        let world = TestCluster::new().await;
        let known = ["InPlacePodVerticalScalingInitContainers"];
        for (name, features) in [("new", &known[..]), ("old", &[])] {
            world
                .put(json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
                    "status": {"declaredFeatures": features},
                }))
                .await;
        }
        let change = |node: &str, whole: &str, init: &str| {
            let new = pod(node, whole, init);
            let old = pod(node, "1", "1");
            let refused = world.update_part(&NodeFeatures, "resize", new, &old);
            refused
                .err()
                .unwrap_or_default()
                .replace("pods \"p\" is forbidden: ", "")
        };
        assert_eq!(change("new", "1", "2"), "");
        assert_eq!(change("old", "1", "1"), "");
        assert_eq!(
            change("old", "2", "2"),
            "pod update requires features InPlacePodLevelResourcesVerticalScaling, InPlacePodVerticalScalingInitContainers which \
             are not available on node \"old\""
        );
        assert_eq!(change("missing", "2", "1"), "node \"missing\" not found");
        assert_eq!(change("missing", "1", "1"), "");
        assert_eq!(change("", "2", "2"), "");
    }

    #[test]
    fn sidecar_resize_needs_no_feature() {
        let spec = |cpu: &str| json!({"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}}]});
        assert!(!resizes_init_container(&spec("1"), &spec("2")));
    }
}
