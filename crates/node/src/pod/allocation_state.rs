//! Allocated and actuated resources of a pod (in-place resize, KEP-1287).
//!
//! Both are persisted in the pod's directory, so that a restart of the agent neither revokes an allocation nor applies it twice.
// upstream: pkg/kubelet/allocation/state/state_checkpoint.go stateCheckpoint

use std::{collections::BTreeMap, io, path::Path};

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::{Deserialize, Serialize};

const FILE: &str = "resources.json";

/// CPU in millicores and memory in bytes; 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ContainerResources {
    pub cpu_request: i64,
    pub cpu_limit: i64,
    pub memory_request: i64,
    pub memory_limit: i64,
}

/// Persisted resources of a pod, by container name.
// upstream: pkg/kubelet/allocation/state/state.go PodResourceInfo
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PodResourceInfo {
    /// Resources that the node admitted.
    #[serde(default)]
    pub allocated: BTreeMap<String, ResourceRequirements>,
    /// Resources that containers were last started or updated with.
    #[serde(default)]
    pub actuated: BTreeMap<String, ResourceRequirements>,
}

/// Why a resize does not happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResizeRejection {
    /// The node can never fulfil the resize.
    Infeasible(String),
    /// The resize waits until other pods free resources.
    Deferred(String),
}

// --- ContainerResources ---

impl ContainerResources {
    pub(super) fn of_container(container: &Container) -> Self {
        container
            .resources
            .as_ref()
            .map(ContainerResources::of_resources)
            .unwrap_or_default()
    }

    pub(super) fn of_resources(resources: &ResourceRequirements) -> Self {
        let read_amount =
            |list: &Option<BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
             name: &str,
             scale: fn(&Quantity) -> i64| {
                let found = list.as_ref().and_then(|list| list.get(name));
                let read = found.and_then(|quantity| quantity.0.parse::<Quantity>().ok());
                read.map_or(0, |quantity| scale(&quantity))
            };
        let cpu_limit = read_amount(&resources.limits, "cpu", milli_value);
        let memory_limit = read_amount(&resources.limits, "memory", value);
        let cpu_request = read_amount(&resources.requests, "cpu", milli_value);
        let memory_request = read_amount(&resources.requests, "memory", value);
        ContainerResources {
            cpu_request,
            cpu_limit,
            memory_request,
            memory_limit,
        }
    }

    /// Whether a changed resource has the resize policy `RestartContainer`.
    pub(super) fn needs_restart(&self, current: &ContainerResources, container: &Container) -> bool {
        let restarts = |resource: &str| {
            let mut policies = container.resize_policy.iter().flatten();
            policies
                .any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
        };
        let cpu = (self.cpu_request, self.cpu_limit) != (current.cpu_request, current.cpu_limit);
        let memory =
            (self.memory_request, self.memory_limit) != (current.memory_request, current.memory_limit);
        (cpu && restarts("cpu")) || (memory && restarts("memory"))
    }
}

fn milli_value(quantity: &Quantity) -> i64 {
    quantity.milli_value()
}

fn value(quantity: &Quantity) -> i64 {
    quantity.value()
}

// --- PodResourceInfo ---

impl PodResourceInfo {
    /// The persisted state; empty if the pod is new on this node.
    pub(super) fn read(directory: &Path) -> io::Result<Self> {
        match std::fs::read(directory.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            bytes => Ok(serde_json::from_slice(&bytes?)?),
        }
    }

    /// Persists the state: written to a temporary file and renamed, so that readers never see a partial file.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let new = directory.join(".resources.json");
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, directory.join(FILE))
    }

    /// The pod with its allocated resources.
    pub(super) fn apply_to(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        for container in containers_mut(&mut pod) {
            if let Some(resources) = self.allocated.get(&container.name) {
                container.resources = Some(resources.clone());
            }
        }
        pod
    }

    /// Allocates the resources of the current spec.
    // upstream: pkg/kubelet/allocation/allocation_manager.go SetAllocatedResources
    pub(super) fn allocate(&mut self, pod: &Pod) {
        let mut pod = pod.clone();
        self.allocated = containers_mut(&mut pod)
            .map(|container| {
                (
                    container.name.clone(),
                    container.resources.clone().unwrap_or_default(),
                )
            })
            .collect();
    }

    /// Whether the spec differs from the allocation.
    pub(super) fn differs_from(&self, pod: &Pod) -> bool {
        let mut pod = pod.clone();
        containers_mut(&mut pod).any(|container| {
            self.allocated.get(&container.name).is_some_and(|allocated| {
                ContainerResources::of_resources(allocated) != ContainerResources::of_container(container)
            })
        })
    }

    /// Whether a container has not been updated to its allocation yet.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go IsPodResizeInProgress
    pub(super) fn is_in_progress(&self) -> bool {
        self.allocated.iter().any(|(name, allocated)| {
            let actuated = self.actuated.get(name);
            actuated.is_some_and(|current| {
                ContainerResources::of_resources(current) != ContainerResources::of_resources(allocated)
            })
        })
    }
}

/// Containers that can be resized.
// upstream: pkg/kubelet/allocation/allocation_manager.go IsResizableContainer; upstream excludes init containers that are not sidecars
fn containers_mut(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    let spec = pod.spec.iter_mut();
    spec.flat_map(|spec| {
        spec.init_containers
            .iter_mut()
            .flatten()
            .chain(&mut spec.containers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_resources_are_those_of_a_new_pod_and_damaged_ones_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let read = || PodResourceInfo::read(directory.path());
        assert_eq!(read().unwrap(), PodResourceInfo::default());
        let mut resource_info = PodResourceInfo::default();
        resource_info
            .allocated
            .insert("main".to_owned(), ResourceRequirements::default());
        resource_info.write(directory.path()).unwrap();
        assert_eq!(read().unwrap(), resource_info);
        std::fs::write(directory.path().join(FILE), "{\"allocated\": ").unwrap();
        assert!(read().is_err());
    }
}
