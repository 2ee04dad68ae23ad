//! Order in which pods are evicted.

use std::{cmp::Reverse, sync::Arc};

use k3_quantity::{Format, Quantity};
use k8s_openapi::{
    api::core::v1::{Container, Pod},
    apimachinery::pkg::api::resource::Quantity as WireQuantity,
};

use super::{EvictionSignal, active_pods::pod_priority, pod_usage::PodUsage, signal::EvictionResource};

/// A pod and its resource usage, if known.
#[derive(Clone, Debug)]
pub(super) struct EvictionCandidate {
    pub(super) pod: Arc<Pod>,
    pub(super) usage: Option<PodUsage>,
}

/// Where the writable layers of containers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImageFs {
    /// On the file system of the data directory.
    Shared,
    /// On a file system of their own.
    Dedicated,
}

/// Selects the requests or the limits of a container.
pub(super) type ResourceListOf = fn(&Container) -> Option<&std::collections::BTreeMap<String, WireQuantity>>;

pub(super) fn requests_of(
    container: &Container,
) -> Option<&std::collections::BTreeMap<String, WireQuantity>> {
    container.resources.as_ref()?.requests.as_ref()
}

pub(super) fn limits_of(container: &Container) -> Option<&std::collections::BTreeMap<String, WireQuantity>> {
    container.resources.as_ref()?.limits.as_ref()
}

/// The request or limit of a container for a resource, if set.
pub(super) fn amount(container: &Container, of: ResourceListOf, name: &str) -> Option<Quantity> {
    of(container)?.get(name)?.0.parse().ok()
}

/// Whether an init container is a sidecar: it keeps running next to the other containers.
pub(super) fn is_restartable_init_container(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Request or limit of a pod: the sum of its containers and sidecars, or the largest init container if that is more.
pub(super) fn total(pod: &Pod, of: ResourceListOf, name: &str) -> Option<Quantity> {
    let spec = pod.spec.as_ref()?;
    let init_containers = spec.init_containers.as_deref().unwrap_or_default();
    let concurrent = spec.containers.iter().chain(
        init_containers
            .iter()
            .filter(|container| is_restartable_init_container(container)),
    );
    let mut sum: Option<Quantity> = None;
    for container in concurrent {
        if let Some(amount) = amount(container, of, name) {
            match &mut sum {
                Some(sum) => sum.add(&amount),
                None => sum = Some(amount),
            }
        }
    }
    let sequential = init_containers
        .iter()
        .filter(|container| !is_restartable_init_container(container));
    sequential
        .filter_map(|container| amount(container, of, name))
        .chain(sum)
        .max()
}

/// Request of a pod: the pod-level one if set.
fn request(pod: &Pod, name: &str) -> i64 {
    let pod_level = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let pod_level =
        pod_level.and_then(|resources| resources.requests.as_ref()?.get(name)?.0.parse::<Quantity>().ok());
    pod_level
        .or_else(|| total(pod, requests_of, name))
        .map_or(0, |amount| amount.value())
}

/// Sorts the pods for eviction: first pods whose usage exceeds their requests, then lower priority, then the largest usage above
/// the requests.
// upstream: pkg/kubelet/eviction/helpers.go rankMemoryPressure, rankDiskPressureFunc, rankPIDPressure
pub(super) fn rank(candidates: &mut [EvictionCandidate], signal: EvictionSignal, image_fs: ImageFs) {
    candidates.sort_by_key(|candidate| {
        let pod = &*candidate.pod;
        // Pods without stats come first.
        let Some(usage) = &candidate.usage else {
            return (false, 0, Reverse(i64::MAX));
        };
        let used = i64::try_from(used(usage, signal, image_fs)).unwrap_or(i64::MAX);
        let requested = match signal.resource() {
            EvictionResource::Memory => request(pod, "memory"),
            EvictionResource::EphemeralStorage => request(pod, "ephemeral-storage"),
            EvictionResource::Inodes | EvictionResource::Pids => 0,
        };
        let is_within_requests = signal != EvictionSignal::PidAvailable && used <= requested;
        (
            is_within_requests,
            pod_priority(pod),
            Reverse(used.saturating_sub(requested)),
        )
    });
}

/// Usage of the resource that a signal observes.
fn used(usage: &PodUsage, signal: EvictionSignal, image_fs: ImageFs) -> u64 {
    match signal {
        EvictionSignal::MemoryAvailable => usage.memory_working_set(),
        EvictionSignal::PidAvailable => usage.processes(),
        EvictionSignal::NodeFsInodesFree | EvictionSignal::ImageFsInodesFree => usage.inodes(),
        EvictionSignal::NodeFsAvailable if image_fs == ImageFs::Dedicated => {
            usage.disk().saturating_sub(usage.writable_layers())
        }
        EvictionSignal::ImageFsAvailable if image_fs == ImageFs::Dedicated => usage.writable_layers(),
        EvictionSignal::NodeFsAvailable | EvictionSignal::ImageFsAvailable => usage.disk(),
    }
}

/// A number of bytes as a quantity in binary notation.
pub(super) fn bytes(amount: u64) -> Quantity {
    Quantity::new(i64::try_from(amount).unwrap_or(i64::MAX), Format::BinarySi)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::runtime::ContainerStats;

    pub(in super::super) fn candidate(
        name: &str,
        priority: i32,
        memory_request: &str,
        working_set: u64,
    ) -> EvictionCandidate {
        let requests = if memory_request.is_empty() {
            json!({})
        } else {
            json!({"memory": memory_request})
        };
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"priority": priority,
            "containers": [{"name": "main", "resources": {"requests": requests}}]}});
        let usage = ContainerStats {
            name: "main".to_owned(),
            memory_working_set: working_set,
            pids: working_set,
            ..ContainerStats::default()
        };
        EvictionCandidate {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            usage: Some(PodUsage {
                containers: vec![usage],
                ..PodUsage::default()
            }),
        }
    }

    fn order(mut candidates: Vec<EvictionCandidate>, signal: EvictionSignal) -> Vec<String> {
        rank(&mut candidates, signal, ImageFs::Shared);
        candidates
            .iter()
            .map(|candidate| candidate.pod.metadata.name.clone().unwrap())
            .collect()
    }

    #[test]
    fn ranks_pods_above_requests_first() {
        let all = vec![
            candidate("within", 0, "1Ki", 1000),
            candidate("over-important", 10, "1Ki", 9000),
            candidate("over", 0, "1Ki", 2000),
            candidate("greedy", 0, "", 3000),
            EvictionCandidate {
                usage: None,
                ..candidate("unknown", 5, "", 0)
            },
        ];
        assert_eq!(
            order(all, EvictionSignal::MemoryAvailable),
            ["unknown", "greedy", "over", "over-important", "within"]
        );
    }

    #[test]
    fn ranks_pid_usage_by_priority() {
        let all = vec![
            candidate("few", 0, "1Ki", 1),
            candidate("many", 0, "", 9),
            candidate("important", 7, "", 99),
        ];
        assert_eq!(
            order(all, EvictionSignal::PidAvailable),
            ["many", "few", "important"]
        );
    }

    #[test]
    fn sums_containers_and_sidecars() {
        let container = |name: &str, amount: &str| json!({"name": name, "resources": {"limits": {"ephemeral-storage": amount}}});
        let mut sidecar = container("side", "1Ki");
        sidecar["restartPolicy"] = "Always".into();
        let pod = |init: serde_json::Value| -> Pod {
            serde_json::from_value(json!({"spec": {"containers": [container("a", "2Ki"), {"name": "b"}], "initContainers": init}})).unwrap()
        };
        let total = |pod: Pod| total(&pod, limits_of, "ephemeral-storage").map(|amount| amount.to_string());
        assert_eq!(total(pod(json!([sidecar]))).as_deref(), Some("3Ki"));
        assert_eq!(
            total(pod(json!([container("i", "9Ki"), sidecar]))).as_deref(),
            Some("9Ki")
        );
        assert_eq!(
            total(serde_json::from_value(json!({"spec": {"containers": [{"name": "b"}]}})).unwrap()),
            None
        );
    }
}
