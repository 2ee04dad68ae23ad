//! `PodTopologyLabels`: copies the topology labels of the node to a pod when it is bound.

use k3_api::{
    selector::label::Labels,
    status::Status,
    strategy::{Tree, TreeMut},
};

use super::{AdmissionAttributes, AdmissionPlugin, Operation, resource};
use crate::cache::WatchCaches;

const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub(super) struct PodTopologyLabels;

// upstream: plugin/pkg/admission/podtopologylabels/admission.go Admit, admitBinding, admitPod
impl AdmissionPlugin for PodTopologyLabels {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
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

    use super::{super::testing::TestCluster, *};

    #[tokio::test]
    async fn copies_topology_labels_from_node() {
        let world = TestCluster::new().await;
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
