//! Cgroup limits of a container.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go generateLinuxContainerResources, calculateLinuxResources

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use super::pod_resources::{self, quantity_of};
use crate::{NodeFacts, pod::status::restart::is_restartable_init_container, runtime::ContainerResources};

/// The kernel's minimum of `cpu.shares`.
// upstream: pkg/kubelet/cm/helpers_linux.go MilliCPUToShares, MilliCPUToQuota
const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const SHARES_PER_CPU: i64 = 1024;
/// Value of `cpu.cfs_period_us`.
const QUOTA_PERIOD: i64 = 100_000;
/// Minimum of `cpu.cfs_quota_us`.
const MIN_QUOTA_PERIOD: i64 = 1000;
const MILLI_CPU_PER_CPU: i64 = 1000;

/// Score of guaranteed and node-critical pods: killed last.
const GUARANTEED_OOM_SCORE: i64 = -997;
/// Score of best-effort pods: killed first.
const BEST_EFFORT_OOM_SCORE: i64 = 1000;
/// Priority of system-node-critical pods.
const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;

/// Cgroup limits of a container, with those of its pod where it has none.
pub fn generate_container_resources(
    pod: &Pod,
    container: &Container,
    facts: &NodeFacts,
) -> ContainerResources {
    let no_spec = PodSpec::default();
    let no_resources = ResourceRequirements::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let own = container.resources.as_ref().unwrap_or(&no_resources);
    let of_pod = spec
        .resources
        .as_ref()
        .filter(|_| pod_resources::has_pod_level_resources(spec));

    let limit = |name| {
        let limit = quantity_of(own.limits.as_ref(), name);
        match of_pod {
            Some(of_pod) if limit.is_zero() => quantity_of(of_pod.limits.as_ref(), name),
            _ => limit,
        }
    };
    let cpu_limit = limit("cpu");
    let memory = limit("memory").value();
    let requested = own.requests.as_ref().filter(|list| list.contains_key("cpu"));
    let cpu_request = requested.map_or_else(|| cpu_limit.clone(), |list| quantity_of(Some(list), "cpu"));
    let quota = milli_cpu_to_quota(cpu_limit.milli_value());
    ContainerResources {
        cpu_shares: Some(milli_cpu_to_shares(cpu_request.milli_value())),
        cpu_quota: quota,
        cpu_period: quota.and(u64::try_from(QUOTA_PERIOD).ok()),
        memory: u64::try_from(memory).ok().filter(|memory| *memory > 0),
        oom_score_adj: Some(container_oom_score_adjust(pod, spec, container, facts)),
        pids: facts.machine.pids_limit,
        huge_pages: hugepage_limits(of_pod, own, facts),
        unified: unified_cgroup_settings(facts),
    }
}

fn milli_cpu_to_shares(milli: i64) -> u64 {
    let shares = milli.saturating_mul(SHARES_PER_CPU) / MILLI_CPU_PER_CPU;
    u64::try_from(shares).unwrap_or(0).clamp(MIN_SHARES, MAX_SHARES)
}

fn milli_cpu_to_quota(milli: i64) -> Option<i64> {
    (milli > 0).then(|| (milli.saturating_mul(QUOTA_PERIOD) / MILLI_CPU_PER_CPU).max(MIN_QUOTA_PERIOD))
}

/// The more memory a container requests, the later the OOM killer picks it.
// upstream: pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust
fn container_oom_score_adjust(pod: &Pod, spec: &PodSpec, container: &Container, facts: &NodeFacts) -> i64 {
    if spec
        .priority
        .is_some_and(|priority| priority >= NODE_CRITICAL_PRIORITY)
    {
        return GUARANTEED_OOM_SCORE;
    }
    match pod_resources::pod_qos(pod) {
        pod_resources::GUARANTEED => return GUARANTEED_OOM_SCORE,
        pod_resources::BEST_EFFORT => return BEST_EFFORT_OOM_SCORE,
        _ => {}
    }
    let node_memory = i64::try_from(facts.machine.memory).unwrap_or(i64::MAX).max(1);
    // The pod-level request beyond the containers' requests is divided among them.
    let pod_level_share = if pod_resources::has_pod_level_requests(spec) {
        remaining_memory_per_container(spec)
    } else {
        0
    };
    let score = |memory: i64| {
        BEST_EFFORT_OOM_SCORE - (memory.saturating_add(pod_level_share)).saturating_mul(1000) / node_memory
    };
    let mut own = score(requested_memory(container));
    if is_restartable_init_container(container)
        && spec
            .init_containers
            .iter()
            .flatten()
            .any(|one| one.name == container.name)
    {
        // A sidecar is killed no earlier than the containers it serves.
        let least = spec.containers.iter().map(requested_memory).min().unwrap_or(0);
        own = own.min(score(least));
    }
    own.clamp(
        BEST_EFFORT_OOM_SCORE + GUARANTEED_OOM_SCORE,
        BEST_EFFORT_OOM_SCORE - 1,
    )
}

fn requested_memory(container: &Container) -> i64 {
    let own = container.resources.as_ref();
    quantity_of(own.and_then(|own| own.requests.as_ref()), "memory").value()
}

fn remaining_memory_per_container(spec: &PodSpec) -> i64 {
    let own = spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    let requested = quantity_of(own, "memory").value();
    let containers = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let left = (requested - pod_resources::aggregate_memory_requests(spec)).max(0);
    left / i64::try_from(containers).unwrap_or(1).max(1)
}

/// Limits of every page size of the node: zero unless requested.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container_linux.go GetHugepageLimitsFromResources
fn hugepage_limits(
    of_pod: Option<&ResourceRequirements>,
    own: &ResourceRequirements,
    facts: &NodeFacts,
) -> BTreeMap<String, u64> {
    let sizes = facts.machine.huge_page_sizes.iter();
    let mut pages: BTreeMap<_, _> = sizes.map(|size| (size.clone(), 0)).collect();
    let lists = [of_pod, Some(own)].into_iter().flatten();
    for (name, text) in lists.filter_map(|list| list.limits.as_ref()).flatten() {
        let Some(size) = name.strip_prefix("hugepages-").and_then(page_size) else {
            continue;
        };
        if let Some(bytes) = pages.get_mut(&size) {
            *bytes = u64::try_from(parse_quantity(text).value()).unwrap_or(0);
        }
    }
    pages
}

/// The size of a page in the spelling of cgroups: `2Mi` is `2MB`.
fn page_size(text: &str) -> Option<String> {
    let mut size = text.parse::<Quantity>().ok()?.value();
    let mut units = ["B", "KB", "MB", "GB", "TB", "PB"].into_iter();
    let mut unit = units.next()?;
    while size > 0 && size % 1024 == 0 {
        let Some(next) = units.next() else {
            break;
        };
        size /= 1024;
        unit = next;
    }
    Some(format!("{size}{unit}"))
}

fn parse_quantity(text: &Text) -> Quantity {
    text.0.parse().unwrap_or_else(|_| Quantity::zero())
}

/// `memory.min` and `memory.low` are reset explicitly: another kubelet may have set them.
fn unified_cgroup_settings(facts: &NodeFacts) -> BTreeMap<String, String> {
    if !facts.machine.unified_cgroups {
        return BTreeMap::new();
    }
    let names = ["memory.min", "memory.low"];
    names.map(|name| (name.to_owned(), "0".to_owned())).into()
}
