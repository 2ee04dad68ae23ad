//! A pod that gets a node gets the labels that tell where the node is.

use k3_api::{
    selector::label::Labels,
    status::Status,
    strategy::{Tree, TreeMut},
};

use super::{Attributes, Operation, Plugin, resource};
use crate::cache::Caches;

const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// The plugin.
pub(super) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.is_of("", "pods") {
            return Ok(());
        }
        // The labels of a binding become labels of its pod.
        let target = attributes.object.at("target");
        let node = match attributes.subresource {
            "" => attributes.object.at("spec").text("nodeName"),
            "binding" if target.text("kind") == "Node" => target.text("name"),
            _ => return Ok(()),
        };
        let nodes = resource("", "nodes", caches);
        let Ok(key) = nodes.key("", node) else {
            return Ok(());
        };
        let Some(node) = nodes.cache.get(&key) else {
            return Ok(());
        };
        for name in TOPOLOGY {
            if let Some(value) = node.labels().get(name) {
                attributes
                    .object
                    .ensure_object("metadata")
                    .ensure_object("labels")
                    .set(name, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::World, *};

    #[tokio::test]
    async fn a_pod_on_a_node_is_labelled_with_its_place() {
        let world = World::new().await;
        let labels =
            json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "other": "x"});
        world
            .put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "labels": labels}}))
            .await;
        let pod = |node: &str| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "p", "namespace": "n", "labels": {"topology.kubernetes.io/zone": "mine"}},
                "spec": {"nodeName": node},
            })
        };
        let placed = world.admit(&PodTopologyLabels, pod("m")).unwrap();
        assert_eq!(
            placed.at("metadata").at("labels"),
            &json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"})
        );
        for elsewhere in ["", "unknown"] {
            let pod = pod(elsewhere);
            assert_eq!(world.admit(&PodTopologyLabels, pod.clone()).unwrap(), pod);
        }
    }
}
