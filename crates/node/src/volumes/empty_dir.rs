//! Folders that are empty in the beginning and go with their pod.

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, Pod};

use super::{
    layout::Plugin,
    recipe::{Kitchen, Recipe},
};
use crate::Facts;

/// Everybody may write, unless the volume says otherwise: its containers run as whoever they like.
const MODE: u32 = 0o777;

/// What has to be done for a volume.
pub(super) fn recipe(
    kitchen: &Kitchen<'_>,
    name: &str,
    source: &EmptyDirVolumeSource,
) -> Result<Recipe, String> {
    let path = kitchen.path(Plugin::EmptyDir, name);
    let ready = kitchen.layout.ready(kitchen.uid, Plugin::EmptyDir, name);
    let mode = source.mode.and_then(|mode| u32::try_from(mode).ok());
    let mode = mode.map_or(MODE, |mode| mode & 0o7777);
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Recipe::Folder { path, ready, mode }),
        "Memory" => {
            let limit = source.size_limit.as_ref().and_then(|limit| limit.0.parse().ok());
            let size = room(kitchen.pod, kitchen.facts, limit.as_ref());
            Ok(Recipe::Memory {
                path,
                ready,
                mode,
                size,
            })
        }
        huge if huge == "HugePages" || huge.starts_with("HugePages-") => Err(format!(
            "medium {huge}: this node mounts no volumes of huge pages"
        )),
        other => Err(format!("unknown storage medium {other:?}")),
    }
}

/// What a volume in memory may take: what it is allowed, but no more than its pod, and no more than all pods. None if none of
/// that is known.
pub(super) fn room(pod: &Pod, facts: &Facts, limit: Option<&Quantity>) -> Option<u64> {
    let of_node = facts.allocatable.get("memory").and_then(bytes);
    let smaller = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    smaller(smaller(of_node, pod_limit(pod)), limit.and_then(bytes))
}

/// The memory that a pod may take: none if one of its containers may take all.
fn pod_limit(pod: &Pod) -> Option<u64> {
    let spec = pod.spec.as_ref()?;
    let whole = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.limits.as_ref()?.get("memory"));
    if let Some(whole) = whole {
        return bytes(&whole.0.parse().ok()?);
    }
    let mut sum: u64 = 0;
    let mut most: u64 = 0;
    for container in spec.init_containers.iter().flatten() {
        let limit = container_limit(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            sum = sum.saturating_add(limit);
            most = most.max(sum);
        } else {
            most = most.max(sum.saturating_add(limit));
        }
    }
    for container in &spec.containers {
        sum = sum.saturating_add(container_limit(container)?);
    }
    let overhead = spec.overhead.as_ref().and_then(|overhead| overhead.get("memory"));
    let overhead = overhead
        .and_then(|overhead| bytes(&overhead.0.parse().ok()?))
        .unwrap_or(0);
    Some(sum.max(most).saturating_add(overhead)).filter(|limit| *limit > 0)
}

fn container_limit(container: &Container) -> Option<u64> {
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

    fn room_of(containers: &serde_json::Value, limit: Option<&str>) -> Option<u64> {
        let pod = serde_json::from_value(json!({"spec": containers})).unwrap();
        let facts = Facts {
            allocatable: [("memory".to_owned(), "1000".parse().unwrap())].into(),
            ..Facts::default()
        };
        room(&pod, &facts, limit.map(|limit| limit.parse().unwrap()).as_ref())
    }

    #[test]
    fn memory_is_what_the_smallest_limit_leaves() {
        let limited = |memory: &str| json!({"name": "c", "resources": {"limits": {"memory": memory}}});
        let open = json!({"containers": [{"name": "c"}, limited("10")]});
        assert_eq!(room_of(&open, None), Some(1000));
        assert_eq!(room_of(&open, Some("50")), Some(50));
        assert_eq!(room_of(&open, Some("5000")), Some(1000));
        let two = json!({"containers": [limited("10"), limited("20")]});
        assert_eq!(room_of(&two, None), Some(30));
        assert_eq!(room_of(&two, Some("50")), Some(30));
        let first = json!({"containers": [limited("10")], "initContainers": [limited("100")]});
        assert_eq!(room_of(&first, None), Some(100));
    }
}
