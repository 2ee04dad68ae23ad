//! Limits of local ephemeral storage.

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::Pod;

use super::{
    pod_usage::PodUsage,
    rank::{ImageFs, amount, bytes, is_restartable_init_container, limits_of, total},
};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Whether a pod has such limits. Most pods have none and are not measured.
pub(super) fn has_limits(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut limits = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.size_limit.as_ref());
    limits.next().is_some() || total(pod, limits_of, EPHEMERAL_STORAGE).is_some()
}

/// The message for an exceeded limit, if any. With a dedicated image file system, writable layers are not local storage of the node.
// upstream: pkg/kubelet/eviction/eviction_manager.go emptyDirLimitEviction, podEphemeralStorageLimitEviction
// upstream: pkg/kubelet/eviction/eviction_manager.go containerEphemeralStorageLimitEviction
pub(super) fn exceeded_limit(pod: &Pod, usage: &PodUsage, image_fs: ImageFs) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let Some(empty_dir) = volume
            .empty_dir
            .as_ref()
            .filter(|empty_dir| empty_dir.medium.as_deref() != Some("Memory"))
        else {
            continue;
        };
        let limit = empty_dir
            .size_limit
            .as_ref()
            .and_then(|limit| limit.0.parse::<Quantity>().ok());
        let used = usage.volumes.get(&volume.name).map(|used| bytes(used.bytes));
        if let (Some(limit), Some(used)) = (limit.filter(|limit| limit.sign().is_gt()), used)
            && used > limit
        {
            return Some(format!(
                "Usage of EmptyDir volume {:?} exceeds the limit \"{limit}\". ",
                volume.name
            ));
        }
    }
    if let Some(limit) = total(pod, limits_of, EPHEMERAL_STORAGE).filter(|limit| bytes(usage.disk()) > *limit)
    {
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ));
    }
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|container| is_restartable_init_container(container));
    for container in spec
        .containers
        .iter()
        .chain(sidecars)
        .filter(|_| image_fs == ImageFs::Shared)
    {
        let limit = amount(container, limits_of, EPHEMERAL_STORAGE).filter(|limit| !limit.is_zero());
        let used = usage.container(&container.name);
        if let (Some(limit), Some(used)) = (limit, used)
            && bytes(used.writable_layer) > limit
        {
            let name = &container.name;
            return Some(format!(
                "Container {name} exceeded its local ephemeral storage limit \"{limit}\". "
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::{super::pod_usage::DirectoryUsage, *};
    use crate::runtime::ContainerStats;

    fn usage(volume: u64, layers: &[(&str, u64)]) -> PodUsage {
        let containers = layers.iter().map(|(name, bytes)| ContainerStats {
            name: (*name).to_owned(),
            writable_layer: *bytes,
            ..ContainerStats::default()
        });
        PodUsage {
            containers: containers.collect(),
            volumes: BTreeMap::from([(
                "tmp".to_owned(),
                DirectoryUsage {
                    bytes: volume,
                    inodes: 1,
                },
            )]),
        }
    }

    #[test]
    fn detects_exceeded_limits() {
        let limited = |limit: &str| json!({"resources": {"limits": {"ephemeral-storage": limit}}});
        let mut first = limited("1Mi");
        first["name"] = "a".into();
        let mut second = limited("3Mi");
        second["name"] = "b".into();
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [first, second],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}]}}))
        .unwrap();
        assert!(has_limits(&pod));
        assert!(!has_limits(&Pod::default()));
        let mib = 1 << 20;
        for (volume, layers, want) in [
            (mib, [("a", mib), ("b", mib)], None),
            (
                mib + 1,
                [("a", 0), ("b", 0)],
                Some("Usage of EmptyDir volume \"tmp\" exceeds the limit \"1Mi\". "),
            ),
            (
                mib,
                [("a", mib), ("b", 3 * mib)],
                Some("Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "),
            ),
            (
                0,
                [("a", mib + 1), ("b", 0)],
                Some("Container a exceeded its local ephemeral storage limit \"1Mi\". "),
            ),
        ] {
            assert_eq!(
                exceeded_limit(&pod, &usage(volume, &layers), ImageFs::Shared).as_deref(),
                want
            );
        }
        assert_eq!(
            exceeded_limit(&pod, &usage(0, &[("a", mib + 1), ("b", 0)]), ImageFs::Dedicated),
            None
        );
    }
}
