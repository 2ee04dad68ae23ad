//! Quota usage of a pod.

// upstream: pkg/quota/v1/evaluator/core/pods.go PodUsageFunc, QuotaV1Pod, Constraints, enforcePodContainerConstraints

use std::collections::{BTreeMap, BTreeSet};

use k3_duration::Duration;
use serde_json::{Map, Value};

use super::{REQUESTS, pieces};
use crate::{
    kinds::{
        is_extended_resource,
        pod_amounts::{self, Totals},
    },
    strategy::Tree,
    time::Time,
};

const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const HUGEPAGES: &str = "hugepages-";
/// The prefix of the implicit extended resource of a device class.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Compute resources that quotas count by requests and by limits.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Quota resources that every container must set when a quota limits them.
const REQUIRED_BY_QUOTA: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Resources that a quota requires, and the names of the containers that do not set them.
pub type MissingConstraints = BTreeMap<&'static str, BTreeSet<String>>;

pub(super) fn tracks(name: &str) -> bool {
    let of_compute = |name: &str| COMPUTE.contains(&name);
    name == COUNT
        || name == PODS
        || of_compute(name)
        || name.starts_with(HUGEPAGES)
        || name.strip_prefix("limits.").is_some_and(of_compute)
        || name
            .strip_prefix(REQUESTS)
            .is_some_and(|of| of_compute(of) || of.starts_with(HUGEPAGES) || is_extended(of))
}

/// Whether a resource is an extended resource: quotas limit only its requests.
pub(super) fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || (name.contains('/') && !name.contains("kubernetes.io/"))
}

/// The quota usage of a pod. A terminal pod, or one whose grace period is over, counts only as an object.
// upstream: pkg/quota/v1/evaluator/core/pods.go PodUsageFunc, QuotaV1Pod
pub(super) fn usage(pod: &Value, now: Time) -> Totals {
    let mut usage = Totals::from([(COUNT.to_owned(), pieces(1))]);
    if is_live(pod, now) {
        usage.insert(PODS.to_owned(), pieces(1));
        usage.extend(compute_usage(&requests(pod), &limits(pod)));
    }
    usage
}

fn is_live(pod: &Value, now: Time) -> bool {
    if matches!(pod.at("status").text("phase"), "Failed" | "Succeeded") {
        return false;
    }
    let metadata = pod.at("metadata");
    let end = Time::parse(metadata.text("deletionTimestamp")).ok();
    match (end, metadata.int("deletionGracePeriodSeconds")) {
        (Some(end), Some(grace)) => now <= end.plus(Duration::from_seconds(grace)),
        _ => true,
    }
}

/// Converts requests and limits to quota resource names (`requests.cpu`, `limits.memory`).
// upstream: pkg/quota/v1/evaluator/core/pods.go podComputeUsageHelper
fn compute_usage(requests: &Totals, limits: &Totals) -> Totals {
    let mut usage = Totals::new();
    for (name, amount) in requests {
        let is_compute = COMPUTE.contains(&name.as_str()) || name.starts_with(HUGEPAGES);
        if is_compute {
            usage.insert(name.clone(), amount.clone());
        }
        if is_compute || is_extended_resource(name) || name.starts_with(DEVICE_CLASS) {
            usage.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    for (name, amount) in limits {
        if COMPUTE.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), amount.clone());
        }
    }
    usage
}

/// Returns the resources that quotas require and containers do not set. Pod-level resources count for all containers.
// upstream: pkg/quota/v1/evaluator/core/pods.go Constraints, enforcePodContainerConstraints
pub(super) fn missing_constraints(pod: &Value) -> MissingConstraints {
    let spec = pod.at("spec");
    let pod_level = |field: &str| spec.at("resources").entries(field).keys();
    if pod_level("requests")
        .chain(pod_level("limits"))
        .any(|name| is_pod_level_resource(name))
    {
        return MissingConstraints::new();
    }
    let mut missing = MissingConstraints::new();
    for container in ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.items(list))
    {
        let amounts = |field: &str| pod_amounts::amounts(container.at("resources").entries(field));
        let usage = compute_usage(&amounts("requests"), &amounts("limits"));
        for name in REQUIRED_BY_QUOTA
            .into_iter()
            .filter(|name| !usage.contains_key(*name))
        {
            let containers = missing.entry(name).or_default();
            containers.insert(container.text("name").to_owned());
        }
    }
    missing
}

// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go IsSupportedPodLevelResource
fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGEPAGES)
}

fn requests(pod: &Value) -> Totals {
    let spec = pod.at("spec");
    let mut total = effective(
        pod,
        "requests",
        &[
            |status| Some(status.at("allocatedResources")).filter(|amounts| amounts.is_object()),
            |status| {
                let candidates = [
                    status.at_path("resources.requests"),
                    status.at("allocatedResources"),
                ];
                candidates.into_iter().find(|amounts| amounts.is_object())
            },
        ],
    );
    apply_pod_level_resources(&mut total, spec, "requests");
    pod_amounts::add(&mut total, &pod_amounts::amounts(spec.entries("overhead")));
    total
}

fn limits(pod: &Value) -> Totals {
    let spec = pod.at("spec");
    let mut total = effective(
        pod,
        "limits",
        &[|status| Some(status.at_path("resources.limits")).filter(|amounts| amounts.is_object())],
    );
    apply_pod_level_resources(&mut total, spec, "limits");
    // The overhead is added only to limits that exist: it must not turn an unlimited resource into a limited one.
    let overhead = pod_amounts::amounts(spec.entries("overhead"));
    let limited = overhead
        .into_iter()
        .filter(|(name, _)| total.get(name).is_some_and(|limit| !limit.is_zero()))
        .collect();
    pod_amounts::add(&mut total, &limited);
    total
}

/// Pod-level resources take precedence over those of containers.
fn apply_pod_level_resources(total: &mut Totals, spec: &Value, field: &str) {
    let pod_level = pod_amounts::amounts(spec.at("resources").entries(field));
    total.extend(
        pod_level
            .into_iter()
            .filter(|(name, _)| is_pod_level_resource(name)),
    );
}

/// Reads resources from the status of a container.
type AllocatedResourcesGetter = fn(&Value) -> Option<&Value>;

/// The maximum of the resources in the spec and of those in the status, per resource: during a resize to less, the pod still has
/// what was allocated before. If the resize is infeasible, the spec does not count.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go containerActuatedRequests, containerActuatedLimits, maxResourceList
fn effective(pod: &Value, field: &str, getters: &[AllocatedResourcesGetter]) -> Totals {
    let spec = pod.at("spec");
    let spec_total = pod_amounts::totals(spec, field);
    let status = pod.at("status");
    let is_infeasible = status
        .items("conditions")
        .iter()
        .find(|condition| condition.text("type") == "PodResizePending")
        .is_some_and(|condition| condition.text("reason") == "Infeasible");
    let statuses: BTreeMap<&str, &Value> = ["initContainerStatuses", "containerStatuses"]
        .into_iter()
        .flat_map(|list| status.items(list))
        .map(|status| (status.text("name"), status))
        .collect();
    if statuses.is_empty() && !is_infeasible {
        return spec_total;
    }
    let mut total = if is_infeasible { Totals::new() } else { spec_total };
    for getter in getters {
        let actual = pod_amounts::aggregate(spec, |container| {
            let status = statuses.get(container.text("name"));
            match status.and_then(|status| getter(status)) {
                Some(amounts) => pod_amounts::amounts(amounts.as_object().unwrap_or(&Map::new())),
                None if is_infeasible => Totals::new(),
                None => pod_amounts::amounts(container.at("resources").entries(field)),
            }
        });
        pod_amounts::raise(&mut total, &actual);
    }
    total
}
