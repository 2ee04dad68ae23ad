//! Rejects pod resizes beyond the allocatable resources of the node, or on nodes that cannot resize pods.

use k3_api::{
    go,
    kinds::pod_requests,
    quantity::Quantity,
    status::{Status, StatusCause},
    strategy::Tree,
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::cache::WatchCaches;

pub(super) struct PodResize;

// upstream: plugin/pkg/admission/podresize/admission.go Validate, validatePodResize
impl AdmissionPlugin for PodResize {
    fn validate(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let concerns = attributes.operation == Operation::Update
            && attributes.subresource == "resize"
            && attributes.is_of("", "pods");
        let (Some(old), true) = (attributes.old, concerns) else {
            return Ok(());
        };
        let pod = &*attributes.object;
        let name = pod.at("spec").text("nodeName");
        // The generation counts the changes of the spec.
        if name.is_empty() || pod.at("metadata").int("generation") == old.at("metadata").int("generation") {
            return Ok(());
        }
        let Some(node) = object("", "nodes", "", name, caches) else {
            return Err(attributes.forbidden(format!("node {} not found", go::quote(name))));
        };
        let (why, reason) = match (platform(&node, name), shortage(pod, &node)) {
            (Some(why), _) => (why, "UnsupportedPlatform"),
            (None, Some(why)) => (why, "NodeCapacity"),
            (None, None) => return Ok(()),
        };
        let mut status = attributes.forbidden(why);
        status.details.get_or_insert_default().causes.push(StatusCause {
            reason: reason.to_owned(),
            ..StatusCause::default()
        });
        Err(status)
    }
}

/// Why pods of a node cannot be resized by its system.
fn platform(node: &Value, name: &str) -> Option<String> {
    let system = node.at("metadata").at("labels").at("kubernetes.io/os").as_str()?;
    (system != "linux").then(|| {
        let name = go::quote(name);
        let system = go::quote(system);
        format!("pod resize is only supported on linux nodes, node {name} is {system}")
    })
}

/// What a node has too little of for a pod.
// upstream: plugin/pkg/admission/podresize/admission.go validateNodeAllocatable
fn shortage(pod: &Value, node: &Value) -> Option<String> {
    let wanted = pod_requests(pod.at("spec"));
    let mut short = Vec::new();
    for (name, shown) in [
        ("cpu", Quantity::milli_value as fn(&Quantity) -> i64),
        ("memory", Quantity::value),
    ] {
        let there = node.at_path("status.allocatable").at(name);
        let there = Quantity::from_value(there).unwrap_or_else(|_| Quantity::zero());
        if let Some(wanted) = wanted.get(name).filter(|wanted| **wanted > there) {
            let wanted = shown(wanted);
            let there = shown(&there);
            short.push(format!("{name}, requested: {wanted}, allocatable: {there}"));
        }
    }
    (!short.is_empty()).then(|| {
        format!(
            "node didn't have enough allocatable resources: {}",
            short.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::testing::TestCluster, *};

    fn pod(node: &str, generation: i64, cpu: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "generation": generation},
            "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Ki"}}}]},
        })
    }

    async fn world() -> TestCluster {
        let world = TestCluster::new().await;
        let allocatable = json!({"cpu": "2", "memory": "1Ki"});
        for (name, system) in [("bird", "linux"), ("glass", "windows")] {
            world
                .put(json!({
                    "apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": name, "labels": {"kubernetes.io/os": system}},
                    "status": {"allocatable": allocatable},
                }))
                .await;
        }
        world
            .put(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}}))
            .await;
        world
    }

    #[tokio::test]
    async fn rejects_resize_beyond_node_allocatable() {
        let world = world().await;
        let resize = |node: &str, generation, cpu: &str| {
            let new = pod(node, generation, cpu);
            let old = pod(node, 1, "1");
            let refused = world.update_part(&PodResize, "resize", new, &old);
            refused
                .err()
                .unwrap_or_default()
                .replace("pods \"p\" is forbidden: ", "")
        };
        assert_eq!(resize("bird", 2, "2"), "");
        assert_eq!(
            resize("bird", 2, "2500m"),
            "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000"
        );
        assert_eq!(
            resize("new", 2, "1"),
            "node didn't have enough allocatable resources: cpu, requested: 1000, allocatable: 0; memory, requested: 1024, \
             allocatable: 0"
        );
        assert_eq!(
            resize("glass", 2, "1"),
            r#"pod resize is only supported on linux nodes, node "glass" is "windows""#
        );
        assert_eq!(resize("missing", 2, "1"), r#"node "missing" not found"#);
        assert_eq!(resize("missing", 1, "1"), "");
        assert_eq!(resize("", 2, "9"), "");
    }
}
