//! Quota usage of a pod.

// upstream: pkg/quota/v1/evaluator/core/pods.go PodUsageFunc, QuotaV1Pod, Constraints, enforcePodContainerConstraints

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{REQUESTS, pieces};
use crate::{
    kinds::{
        is_extended_resource,
        pod_amounts::{self, Totals},
    },
    strategy::Tree,
    time::{Duration, Time},
};

const COUNT: &str = "count/pods";
const PODS: &str = "pods";
const HUGEPAGES: &str = "hugepages-";
/// What begins the name of a resource that a class of devices is, without being named so.
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// What quotas count of containers, by their requests and by their limits.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What every container must say when a quota counts it.
const DEMANDED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Names that quotas demand, and the containers that do not say them.
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

/// Whether quotas can count it by requests alone.
pub(super) fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || (name.contains('/') && !name.contains("kubernetes.io/"))
}

/// A pod that has ended, or should have, uses nothing but its object count.
pub(super) fn usage(pod: &Value, now: Time) -> Totals {
    let mut usage = Totals::from([(COUNT.to_owned(), pieces(1))]);
    if is_live(pod, now) {
        usage.insert(PODS.to_owned(), pieces(1));
        usage.extend(compute(&requests(pod), &limits(pod)));
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

/// Requests and limits under the names of quotas.
fn compute(requests: &Totals, limits: &Totals) -> Totals {
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

/// What the containers of a pod do not set and quotas demand. Pod-level values count for all containers.
pub(super) fn missing(pod: &Value) -> MissingConstraints {
    let spec = pod.at("spec");
    let own = |of: &str| spec.at("resources").entries(of).keys();
    if own("requests").chain(own("limits")).any(|name| suits_pod(name)) {
        return MissingConstraints::new();
    }
    let mut missing = MissingConstraints::new();
    for container in ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| spec.items(list))
    {
        let list = |of: &str| pod_amounts::amounts(container.at("resources").entries(of));
        let said = compute(&list("requests"), &list("limits"));
        for name in DEMANDED.into_iter().filter(|name| !said.contains_key(*name)) {
            let containers = missing.entry(name).or_default();
            containers.insert(container.text("name").to_owned());
        }
    }
    missing
}

fn suits_pod(name: &str) -> bool {
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
                let given = [
                    status.at_path("resources.requests"),
                    status.at("allocatedResources"),
                ];
                given.into_iter().find(|amounts| amounts.is_object())
            },
        ],
    );
    speak_for(&mut total, spec, "requests");
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
    speak_for(&mut total, spec, "limits");
    // What has no limit does not get one by what running it costs.
    let overhead = pod_amounts::amounts(spec.entries("overhead"));
    let limited = overhead
        .into_iter()
        .filter(|(name, _)| total.get(name).is_some_and(|limit| !limit.is_zero()))
        .collect();
    pod_amounts::add(&mut total, &limited);
    total
}

/// Pod-level resources take precedence over those of containers.
fn speak_for(total: &mut Totals, spec: &Value, of: &str) {
    let own = pod_amounts::amounts(spec.at("resources").entries(of));
    total.extend(own.into_iter().filter(|(name, _)| suits_pod(name)));
}

/// Where the status of a container has its allocated resources.
type AllocatedResourcesGetter = fn(&Value) -> Option<&Value>;

/// What the containers of a pod ask for in all, or have, whichever is more: a pod that shrinks still has what it had. What cannot
/// be given does not count.
fn effective(pod: &Value, of: &str, given: &[AllocatedResourcesGetter]) -> Totals {
    let spec = pod.at("spec");
    let asked = pod_amounts::totals(spec, of);
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
        return asked;
    }
    let mut total = if is_infeasible { Totals::new() } else { asked };
    for given in given {
        let has = pod_amounts::aggregate(spec, |container| {
            let status = statuses.get(container.text("name"));
            match status.and_then(|status| given(status)) {
                Some(amounts) => pod_amounts::amounts(amounts.as_object().unwrap_or(&Map::new())),
                None if is_infeasible => Totals::new(),
                None => pod_amounts::amounts(container.at("resources").entries(of)),
            }
        });
        pod_amounts::raise(&mut total, &has);
    }
    total
}
