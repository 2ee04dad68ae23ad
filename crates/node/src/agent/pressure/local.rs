//! Pods that use more disk than they may.

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::Pod;

use super::{
    rank::{amount, bytes, is_restartable_init_container, limits_of, total},
    usage::PodUsage,
};

const STORAGE: &str = "ephemeral-storage";

/// Whether a pod has limits of this kind at all; most have none, and need not be measured.
pub(super) fn is_limited(pod: &Pod) -> bool {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mut limits = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.size_limit.as_ref());
    limits.next().is_some() || total(pod, limits_of, STORAGE).is_some()
}

/// Why a pod has to go, if it does. `split` says that what containers write is not on the disk of the node.
pub(super) fn excess(pod: &Pod, usage: &PodUsage, split: bool) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    for volume in spec.volumes.iter().flatten() {
        let Some(empty) = volume
            .empty_dir
            .as_ref()
            .filter(|empty| empty.medium.as_deref() != Some("Memory"))
        else {
            continue;
        };
        let limit = empty
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
    if let Some(limit) = total(pod, limits_of, STORAGE).filter(|limit| bytes(usage.disk()) > *limit) {
        return Some(format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ));
    }
    let before = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|known| is_restartable_init_container(known));
    for container in spec.containers.iter().chain(before).filter(|_| !split) {
        let limit = amount(container, limits_of, STORAGE).filter(|limit| !limit.is_zero());
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

    use super::{super::usage::FolderUse, *};
    use crate::runtime::ContainerUsage;

    fn usage(volume: u64, layers: &[(&str, u64)]) -> PodUsage {
        let containers = layers.iter().map(|(name, bytes)| ContainerUsage {
            name: (*name).to_owned(),
            writable_layer: *bytes,
            ..ContainerUsage::default()
        });
        PodUsage {
            containers: containers.collect(),
            volumes: BTreeMap::from([(
                "tmp".to_owned(),
                FolderUse {
                    bytes: volume,
                    inodes: 1,
                },
            )]),
        }
    }

    #[test]
    fn limits_of_disks_are_kept() {
        let limited = |limit: &str| json!({"resources": {"limits": {"ephemeral-storage": limit}}});
        let mut first = limited("1Mi");
        first["name"] = "a".into();
        let mut second = limited("3Mi");
        second["name"] = "b".into();
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [first, second],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}]}}))
        .unwrap();
        assert!(is_limited(&pod));
        assert!(!is_limited(&Pod::default()));
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
            assert_eq!(excess(&pod, &usage(volume, &layers), false).as_deref(), want);
        }
        assert_eq!(excess(&pod, &usage(0, &[("a", mib + 1), ("b", 0)]), true), None);
    }
}
