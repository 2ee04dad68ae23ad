//! Requests, limits and QoS class of a pod.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests, PodLimits

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use crate::pod::status::restart::is_restartable_init_container;

/// QoS class: the requests of all containers equal their limits.
pub const GUARANTEED: &str = "Guaranteed";
/// QoS class: some container has requests or limits, but not all of them are equal.
pub const BURSTABLE: &str = "Burstable";
/// QoS class: no container has requests or limits.
pub const BEST_EFFORT: &str = "BestEffort";

/// CPU requests up to this many millicores are the cgroup's minimum weight, so no request is reported.
const MIN_CPU_REQUEST: i64 = 2;

type Quantities = BTreeMap<String, Quantity>;
type QuantityTexts = BTreeMap<String, Text>;

#[derive(Clone, Copy)]
enum ResourceListKind {
    Requests,
    Limits,
}

/// The QoS class of a pod: as the API reports it, or computed.
// upstream: pkg/apis/core/v1/helper/qos/qos.go GetPodQOS, ComputePodQOS
pub fn pod_qos(pod: &Pod) -> &'static str {
    let reported = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    match reported {
        Some(GUARANTEED) => return GUARANTEED,
        Some(BURSTABLE) => return BURSTABLE,
        Some(BEST_EFFORT) => return BEST_EFFORT,
        _ => {}
    }
    let Some(spec) = &pod.spec else {
        return BEST_EFFORT;
    };
    if let Some(own) = spec.resources.as_ref().filter(|_| has_pod_level_resources(spec)) {
        return qos_class(own);
    }
    let nothing = ResourceRequirements::default();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut qos_classes =
        containers.map(|container| qos_class(container.resources.as_ref().unwrap_or(&nothing)));
    let first = qos_classes.next().unwrap_or(BEST_EFFORT);
    if qos_classes.all(|other| other == first) {
        first
    } else {
        BURSTABLE
    }
}

fn qos_class(resources: &ResourceRequirements) -> &'static str {
    let [cpu, memory] = ["cpu", "memory"].map(|name| {
        let request = quantity_of(resources.requests.as_ref(), name);
        let limit = quantity_of(resources.limits.as_ref(), name);
        match request == limit {
            false => BURSTABLE,
            true if request.is_zero() => BEST_EFFORT,
            true => GUARANTEED,
        }
    });
    if cpu == memory { cpu } else { BURSTABLE }
}

/// Whether the pod has pod-level resources (KEP-2837).
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go IsPodLevelResourcesSet
pub fn has_pod_level_resources(spec: &PodSpec) -> bool {
    has_pod_level_list(spec, ResourceListKind::Requests) || has_pod_level_list(spec, ResourceListKind::Limits)
}

/// Whether the pod has pod-level requests.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go IsPodLevelRequestsSet
pub fn has_pod_level_requests(spec: &PodSpec) -> bool {
    has_pod_level_list(spec, ResourceListKind::Requests)
}

fn has_pod_level_list(spec: &PodSpec, kind: ResourceListKind) -> bool {
    let own = spec.resources.as_ref().and_then(|own| kind.list(own));
    own.is_some_and(|own| own.keys().any(|name| is_supported_pod_level_resource(name)))
}

fn is_supported_pod_level_resource(name: &str) -> bool {
    ["cpu", "memory"].contains(&name) || name.starts_with("hugepages-")
}

/// Requests and limits of a pod: the maximum over its lifetime or its pod-level resources, plus overhead.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests, PodLimits
pub fn pod_requests_and_limits(pod: &Pod) -> ResourceRequirements {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let mut requests = pod_total(spec, ResourceListKind::Requests);
    let mut limits = pod_total(spec, ResourceListKind::Limits);
    let overhead = quantities(spec.overhead.as_ref());
    add_list(&mut requests, &overhead);
    for (name, amount) in &overhead {
        if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
            limit.add(amount);
        }
    }
    ResourceRequirements {
        requests: texts(requests),
        limits: texts(limits),
        claims: spec.resources.as_ref().and_then(|own| own.claims.clone()),
    }
}

/// CPU and memory of a running pod as its cgroup enforces them: a limit counts only if every container has one.
pub fn enforced_resources(pod: &Pod) -> ResourceRequirements {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let effective = pod_requests_and_limits(pod);
    let mut own = spec.resources.clone().unwrap_or_default();
    let mut put = |kind: ResourceListKind, name: &str| {
        let amount = kind.list(&effective).and_then(|list| list.get(name));
        if let Some(amount) = amount {
            kind.list_mut(&mut own).insert(name.to_owned(), amount.clone());
        }
    };
    if quantity_of(effective.requests.as_ref(), "cpu").milli_value() > MIN_CPU_REQUEST {
        put(ResourceListKind::Requests, "cpu");
    }
    let own_requests = spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    if own_requests.is_none_or(|own| !own.contains_key("memory")) {
        put(ResourceListKind::Requests, "memory");
    }
    for name in ["cpu", "memory"] {
        if is_limited(spec, name) {
            put(ResourceListKind::Limits, name);
        }
    }
    for list in [&mut own.requests, &mut own.limits] {
        list.take_if(|list| list.is_empty());
    }
    own
}

fn is_limited(spec: &PodSpec, name: &str) -> bool {
    let limits = |resources: &Option<ResourceRequirements>| {
        let limits = resources.as_ref().and_then(|own| own.limits.as_ref());
        !quantity_of(limits, name).is_zero()
    };
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    limits(&spec.resources) || containers.all(|container| limits(&container.resources))
}

fn pod_total(spec: &PodSpec, kind: ResourceListKind) -> Quantities {
    let mut total = aggregate_containers(spec, kind);
    let own = spec.resources.as_ref().and_then(|own| kind.list(own));
    total.extend(
        quantities(own)
            .into_iter()
            .filter(|(name, _)| is_supported_pod_level_resource(name)),
    );
    total
}

/// Memory requested by all containers.
pub(super) fn aggregate_memory_requests(spec: &PodSpec) -> i64 {
    let total = aggregate_containers(spec, ResourceListKind::Requests);
    total.get("memory").map_or(0, Quantity::value)
}

/// Init containers run one after the other, sidecars next to everything after them: the maximum over time counts.
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go AggregateContainerRequests
fn aggregate_containers(spec: &PodSpec, kind: ResourceListKind) -> Quantities {
    let own = |container: &Container| {
        let resources = container.resources.as_ref();
        quantities(resources.and_then(|resources| kind.list(resources)))
    };
    let mut total = Quantities::new();
    for container in &spec.containers {
        add_list(&mut total, &own(container));
    }
    let mut sidecars = Quantities::new();
    let mut starting = Quantities::new();
    for container in spec.init_containers.iter().flatten() {
        let mut own = own(container);
        if is_restartable_init_container(container) {
            add_list(&mut total, &own);
            add_list(&mut sidecars, &own);
            max_list(&mut starting, &sidecars);
        } else {
            add_list(&mut own, &sidecars);
            max_list(&mut starting, &own);
        }
    }
    max_list(&mut total, &starting);
    total
}

/// One quantity of a list; zero if absent or invalid.
pub(super) fn quantity_of(list: Option<&QuantityTexts>, name: &str) -> Quantity {
    let text = list.and_then(|list| list.get(name));
    text.map_or_else(Quantity::zero, parse_quantity)
}

fn quantities(list: Option<&QuantityTexts>) -> Quantities {
    let list = list.into_iter().flatten();
    list.map(|(name, text)| (name.clone(), parse_quantity(text)))
        .collect()
}

fn parse_quantity(text: &Text) -> Quantity {
    text.0.parse().unwrap_or_else(|_| Quantity::zero())
}

fn texts(quantities: Quantities) -> Option<QuantityTexts> {
    let texts = quantities
        .into_iter()
        .map(|(name, amount)| (name, Text(amount.to_string())));
    let texts: QuantityTexts = texts.collect();
    (!texts.is_empty()).then_some(texts)
}

fn add_list(total: &mut Quantities, more: &Quantities) {
    for (name, amount) in more {
        total
            .entry(name.clone())
            .and_modify(|sum| sum.add(amount))
            .or_insert_with(|| amount.clone());
    }
}

fn max_list(total: &mut Quantities, least: &Quantities) {
    for (name, amount) in least {
        let sum = total.entry(name.clone()).or_insert_with(|| amount.clone());
        if *sum < *amount {
            *sum = amount.clone();
        }
    }
}

// --- ResourceListKind ---

impl ResourceListKind {
    fn list(self, resources: &ResourceRequirements) -> Option<&QuantityTexts> {
        match self {
            ResourceListKind::Requests => resources.requests.as_ref(),
            ResourceListKind::Limits => resources.limits.as_ref(),
        }
    }
    fn list_mut(self, resources: &mut ResourceRequirements) -> &mut QuantityTexts {
        let list = match self {
            ResourceListKind::Requests => &mut resources.requests,
            ResourceListKind::Limits => &mut resources.limits,
        };
        list.get_or_insert_default()
    }
}
