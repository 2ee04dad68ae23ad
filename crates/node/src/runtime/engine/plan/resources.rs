//! What a container may use, as the engine is told.

use super::unsupported;
use crate::runtime::{Resources, RuntimeError, engine::wire::Limits};

/// The limits of a container that is made.
pub(super) fn host_resources(resources: &Resources) -> Result<Limits, RuntimeError> {
    if let Some((size, _)) = resources.huge_pages.iter().find(|(_, bytes)| **bytes > 0) {
        return Err(unsupported(&format!("huge pages ({size})")));
    }
    Ok(limits(resources))
}

/// The limits that can be changed. What has a limit of memory may not swap: the limit would mean nothing.
pub(in crate::runtime::engine) fn limits(resources: &Resources) -> Limits {
    Limits {
        cpu_shares: resources.cpu_shares,
        cpu_quota: resources.cpu_quota,
        cpu_period: resources.cpu_period,
        memory: resources.memory,
        memory_swap: resources.memory,
        pids_limit: resources.pids,
    }
}
