//! Resource limits of a container.

use super::unsupported;
use crate::runtime::{ContainerResources, RuntimeError, docker::requests::ResourceLimits};

/// Limits of a new container.
pub(super) fn host_resources(resources: &ContainerResources) -> Result<ResourceLimits, RuntimeError> {
    if let Some((size, _)) = resources.huge_pages.iter().find(|(_, bytes)| **bytes > 0) {
        return Err(unsupported(&format!("huge pages ({size})")));
    }
    Ok(limits(resources))
}

/// Limits that can be updated. A memory limit disables swap, as in the kubelet's `NoSwap`.
pub(in crate::runtime::docker) fn limits(resources: &ContainerResources) -> ResourceLimits {
    ResourceLimits {
        cpu_shares: resources.cpu_shares,
        cpu_quota: resources.cpu_quota,
        cpu_period: resources.cpu_period,
        memory: resources.memory,
        memory_swap: resources.memory,
        pids_limit: resources.pids,
    }
}
