//! Sizes of volumes in memory.

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::NodeFacts;

/// Size limit of a volume in memory: the minimum of its `sizeLimit`, the memory limit of the pod and the allocatable memory of
/// the node. `None` if none of them is known.
// upstream: pkg/volume/emptydir/empty_dir.go calculateEmptyDirMemorySize
pub(super) fn calculate_memory_size(pod: &Pod, facts: &NodeFacts, limit: Option<&Quantity>) -> Option<u64> {
    let allocatable = facts.allocatable.get("memory").and_then(bytes);
    let min_known = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    min_known(
        min_known(allocatable, pod_memory_limit(pod)),
        limit.and_then(bytes),
    )
}

/// The memory limit of a pod; `None` if one of its containers has no limit.
fn pod_memory_limit(pod: &Pod) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let pod_level = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.limits.as_ref()?.get("memory"));
    if let Some(limit) = pod_level {
        return bytes(&limit.0.parse().ok()?);
    }
    // Init containers run one after another, each beside the sidecars that were started before it.
    let mut sum: u64 = 0;
    let mut init_max: u64 = 0;
    for container in spec.init_containers.iter().flatten() {
        let limit = container_memory_limit(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            sum = sum.saturating_add(limit);
            init_max = init_max.max(sum);
        } else {
            init_max = init_max.max(sum.saturating_add(limit));
        }
    }
    for container in &spec.containers {
        sum = sum.saturating_add(container_memory_limit(container)?);
    }
    let overhead = spec.overhead.as_ref().and_then(|overhead| overhead.get("memory"));
    let overhead = overhead
        .and_then(|overhead| bytes(&overhead.0.parse().ok()?))
        .unwrap_or(0);
    Some(sum.max(init_max).saturating_add(overhead)).filter(|limit| *limit > 0)
}

fn container_memory_limit(container: &Container) -> Option<u64> {
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    bytes(&limits.get("memory")?.0.parse().ok()?)
}

fn bytes(quantity: &Quantity) -> Option<u64> {
    u64::try_from(quantity.value()).ok().filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn memory_size(containers: &serde_json::Value, limit: Option<&str>) -> Option<u64> {
        let pod = serde_json::from_value(json!({"spec": containers})).unwrap();
        let facts = NodeFacts {
            allocatable: [("memory".to_owned(), "1000".parse().unwrap())].into(),
            ..NodeFacts::default()
        };
        calculate_memory_size(&pod, &facts, limit.map(|limit| limit.parse().unwrap()).as_ref())
    }

    #[test]
    fn memory_size_is_the_smallest_limit() {
        let limited = |memory: &str| json!({"name": "c", "resources": {"limits": {"memory": memory}}});
        let unlimited = json!({"containers": [{"name": "c"}, limited("10")]});
        assert_eq!(memory_size(&unlimited, None), Some(1000));
        assert_eq!(memory_size(&unlimited, Some("50")), Some(50));
        assert_eq!(memory_size(&unlimited, Some("5000")), Some(1000));
        let two = json!({"containers": [limited("10"), limited("20")]});
        assert_eq!(memory_size(&two, None), Some(30));
        assert_eq!(memory_size(&two, Some("50")), Some(30));
        let first = json!({"containers": [limited("10")], "initContainers": [limited("100")]});
        assert_eq!(memory_size(&first, None), Some(100));
    }
}
