//! What a container may use, in the words of cgroups.

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use super::amounts::{self, amount};
use crate::{Facts, pod::status::restart::is_sidecar, runtime::Resources};

/// The least weight of processor time that the kernel knows.
const LEAST_SHARES: u64 = 2;
/// The most.
const MOST_SHARES: u64 = 262_144;
/// The weight of one processor.
const SHARES: i64 = 1024;
/// The time over which the use of processors is limited, in microseconds.
const PERIOD: i64 = 100_000;
/// The least time in each period.
const LEAST_QUOTA: i64 = 1000;
/// A thousandth of a processor is the unit in which they are counted.
const MILLI: i64 = 1000;

/// Those who go last when memory is short.
const OOM_LAST: i64 = -997;
/// Those who go first.
const OOM_FIRST: i64 = 1000;
/// The priority from which on a pod is critical for its node.
const NODE_CRITICAL: i32 = 2_000_001_000;

/// What a container may use, with what its pod says for all.
pub fn resources(pod: &Pod, container: &Container, facts: &Facts) -> Resources {
    let nothing = (PodSpec::default(), ResourceRequirements::default());
    let spec = pod.spec.as_ref().unwrap_or(&nothing.0);
    let own = container.resources.as_ref().unwrap_or(&nothing.1);
    let of_pod = spec.resources.as_ref().filter(|_| amounts::has_own(spec));

    let limit = |name| {
        let limit = amount(own.limits.as_ref(), name);
        match of_pod {
            Some(of_pod) if limit.is_zero() => amount(of_pod.limits.as_ref(), name),
            _ => limit,
        }
    };
    let (cpu_limit, memory) = (limit("cpu"), limit("memory").value());
    let asked = own.requests.as_ref().filter(|list| list.contains_key("cpu"));
    let cpu_request = asked.map_or_else(|| cpu_limit.clone(), |list| amount(Some(list), "cpu"));
    let quota = quota(cpu_limit.milli_value());
    Resources {
        cpu_shares: Some(shares(cpu_request.milli_value())),
        cpu_quota: quota,
        cpu_period: quota.and(u64::try_from(PERIOD).ok()),
        memory: u64::try_from(memory).ok().filter(|memory| *memory > 0),
        oom_score_adj: Some(oom_score(pod, spec, container, facts)),
        pids: facts.machine.pids_limit,
        huge_pages: huge_pages(of_pod, own, facts),
        unified: unified(facts),
    }
}

fn shares(milli: i64) -> u64 {
    let shares = milli.saturating_mul(SHARES) / MILLI;
    u64::try_from(shares)
        .unwrap_or(0)
        .clamp(LEAST_SHARES, MOST_SHARES)
}

fn quota(milli: i64) -> Option<i64> {
    (milli > 0).then(|| (milli.saturating_mul(PERIOD) / MILLI).max(LEAST_QUOTA))
}

/// A container that uses more memory than it asked for goes before one that does not.
fn oom_score(pod: &Pod, spec: &PodSpec, container: &Container, facts: &Facts) -> i64 {
    if spec.priority.is_some_and(|priority| priority >= NODE_CRITICAL) {
        return OOM_LAST;
    }
    match amounts::qos(pod) {
        amounts::GUARANTEED => return OOM_LAST,
        amounts::BEST_EFFORT => return OOM_FIRST,
        _ => {}
    }
    let all = i64::try_from(facts.machine.memory).unwrap_or(i64::MAX).max(1);
    // What the pod asked for beyond its containers is shared by them.
    let shared = if amounts::has_own_requests(spec) {
        unshared_memory(spec)
    } else {
        0
    };
    let score = |memory: i64| OOM_FIRST - (memory.saturating_add(shared)).saturating_mul(1000) / all;
    let mut own = score(requested_memory(container));
    if is_sidecar(container)
        && spec
            .init_containers
            .iter()
            .flatten()
            .any(|one| one.name == container.name)
    {
        // A sidecar goes no earlier than what it serves.
        let least = spec.containers.iter().map(requested_memory).min().unwrap_or(0);
        own = own.min(score(least));
    }
    own.clamp(OOM_FIRST + OOM_LAST, OOM_FIRST - 1)
}

fn requested_memory(container: &Container) -> i64 {
    let own = container.resources.as_ref();
    amount(own.and_then(|own| own.requests.as_ref()), "memory").value()
}

fn unshared_memory(spec: &PodSpec) -> i64 {
    let own = spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    let asked = amount(own, "memory").value();
    let containers = spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len);
    let left = (asked - amounts::containers_memory(spec)).max(0);
    left / i64::try_from(containers).unwrap_or(1).max(1)
}

/// Each size the machine has: nothing of it, unless it is asked for.
fn huge_pages(
    of_pod: Option<&ResourceRequirements>,
    own: &ResourceRequirements,
    facts: &Facts,
) -> BTreeMap<String, u64> {
    let sizes = facts.machine.huge_page_sizes.iter();
    let mut pages: BTreeMap<_, _> = sizes.map(|size| (size.clone(), 0)).collect();
    let lists = [of_pod, Some(own)].into_iter().flatten();
    for (name, text) in lists.filter_map(|list| list.limits.as_ref()).flatten() {
        let Some(size) = name.strip_prefix("hugepages-").and_then(page_size) else {
            continue;
        };
        if let Some(bytes) = pages.get_mut(&size) {
            *bytes = u64::try_from(parsed(text).value()).unwrap_or(0);
        }
    }
    pages
}

/// The size of a page as cgroups name it: `2Mi` is `2MB`.
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

fn parsed(text: &Text) -> Quantity {
    text.0.parse().unwrap_or_else(|_| Quantity::zero())
}

/// No memory is kept from the kernel for anyone, which is said, for the container may have been made by others.
fn unified(facts: &Facts) -> BTreeMap<String, String> {
    if !facts.machine.unified_cgroups {
        return BTreeMap::new();
    }
    let names = ["memory.min", "memory.low"];
    names.map(|name| (name.to_owned(), "0".to_owned())).into()
}
