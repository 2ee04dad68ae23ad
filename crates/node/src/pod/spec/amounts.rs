//! What a pod asks for in all, and of which class it is.

use std::collections::BTreeMap;

use k3_quantity::Quantity;
use k8s_openapi::{
    api::core::v1::{Container, Pod, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as Text,
};

use crate::pod::status::restart::is_sidecar;

/// Requests and limits are the same.
pub const GUARANTEED: &str = "Guaranteed";
/// Something is asked for.
pub const BURSTABLE: &str = "Burstable";
/// Nothing is asked for.
pub const BEST_EFFORT: &str = "BestEffort";

/// What a cgroup cannot tell from nothing, in thousandths of a processor.
const LEAST_CPU: i64 = 2;

type Amounts = BTreeMap<String, Quantity>;
type Texts = BTreeMap<String, Text>;

/// Which of its lists.
#[derive(Clone, Copy)]
enum List {
    Requests,
    Limits,
}

/// The class of a pod: what the API says, or what its resources make of it.
pub fn qos(pod: &Pod) -> &'static str {
    let told = pod.status.as_ref().and_then(|status| status.qos_class.as_deref());
    match told {
        Some(GUARANTEED) => return GUARANTEED,
        Some(BURSTABLE) => return BURSTABLE,
        Some(BEST_EFFORT) => return BEST_EFFORT,
        _ => {}
    }
    let Some(spec) = &pod.spec else {
        return BEST_EFFORT;
    };
    if let Some(own) = spec.resources.as_ref().filter(|_| has_own(spec)) {
        return class(own);
    }
    let nothing = ResourceRequirements::default();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut classes = containers.map(|container| class(container.resources.as_ref().unwrap_or(&nothing)));
    let first = classes.next().unwrap_or(BEST_EFFORT);
    if classes.all(|other| other == first) {
        first
    } else {
        BURSTABLE
    }
}

fn class(resources: &ResourceRequirements) -> &'static str {
    let [cpu, memory] = ["cpu", "memory"].map(|name| {
        let request = amount(resources.requests.as_ref(), name);
        let limit = amount(resources.limits.as_ref(), name);
        match request == limit {
            false => BURSTABLE,
            true if request.is_zero() => BEST_EFFORT,
            true => GUARANTEED,
        }
    });
    if cpu == memory { cpu } else { BURSTABLE }
}

/// Whether the pod itself asks for something that pods can ask for.
pub fn has_own(spec: &PodSpec) -> bool {
    has_own_of(spec, List::Requests) || has_own_of(spec, List::Limits)
}

/// Whether the pod itself requests something.
pub fn has_own_requests(spec: &PodSpec) -> bool {
    has_own_of(spec, List::Requests)
}

fn has_own_of(spec: &PodSpec, of: List) -> bool {
    let own = spec.resources.as_ref().and_then(|own| of.list(own));
    own.is_some_and(|own| own.keys().any(|name| suits_pod(name)))
}

fn suits_pod(name: &str) -> bool {
    ["cpu", "memory"].contains(&name) || name.starts_with("hugepages-")
}

/// What a pod has of its node in all: the most of any moment, or what it asks for itself, and what running it costs.
pub fn effective(pod: &Pod) -> ResourceRequirements {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let mut requests = in_all(spec, List::Requests);
    let mut limits = in_all(spec, List::Limits);
    let overhead = amounts(spec.overhead.as_ref());
    add(&mut requests, &overhead);
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

/// What a running pod has in all, as its cgroup would tell it: processors and memory, each limited only if nothing of the pod is
/// without that limit.
pub fn enforced(pod: &Pod) -> ResourceRequirements {
    let nothing = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&nothing);
    let effective = effective(pod);
    let mut own = spec.resources.clone().unwrap_or_default();
    let mut put = |of: List, name: &str| {
        let amount = of.list(&effective).and_then(|list| list.get(name));
        if let Some(amount) = amount {
            of.list_mut(&mut own).insert(name.to_owned(), amount.clone());
        }
    };
    if amount(effective.requests.as_ref(), "cpu").milli_value() > LEAST_CPU {
        put(List::Requests, "cpu");
    }
    let own_requests = spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    if own_requests.is_none_or(|own| !own.contains_key("memory")) {
        put(List::Requests, "memory");
    }
    for name in ["cpu", "memory"] {
        if is_limited(spec, name) {
            put(List::Limits, name);
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
        !amount(limits, name).is_zero()
    };
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    limits(&spec.resources) || containers.all(|container| limits(&container.resources))
}

fn in_all(spec: &PodSpec, of: List) -> Amounts {
    let mut total = of_containers(spec, of);
    let own = spec.resources.as_ref().and_then(|own| of.list(own));
    total.extend(amounts(own).into_iter().filter(|(name, _)| suits_pod(name)));
    total
}

/// The memory that containers request in all.
pub(super) fn containers_memory(spec: &PodSpec) -> i64 {
    let total = of_containers(spec, List::Requests);
    total.get("memory").map_or(0, Quantity::value)
}

/// Init containers run one after the other, sidecars along with all that follows them: the most of any moment counts.
fn of_containers(spec: &PodSpec, of: List) -> Amounts {
    let own = |container: &Container| {
        let resources = container.resources.as_ref();
        amounts(resources.and_then(|resources| of.list(resources)))
    };
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &own(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut own = own(container);
        if is_sidecar(container) {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut starting, &own);
        }
    }
    raise(&mut total, &starting);
    total
}

/// One amount of a list; nothing if it is not there, or makes no sense.
pub(super) fn amount(list: Option<&Texts>, name: &str) -> Quantity {
    let text = list.and_then(|list| list.get(name));
    text.map_or_else(Quantity::zero, read)
}

fn amounts(list: Option<&Texts>) -> Amounts {
    let list = list.into_iter().flatten();
    list.map(|(name, text)| (name.clone(), read(text))).collect()
}

fn read(text: &Text) -> Quantity {
    text.0.parse().unwrap_or_else(|_| Quantity::zero())
}

fn texts(amounts: Amounts) -> Option<Texts> {
    let texts = amounts
        .into_iter()
        .map(|(name, amount)| (name, Text(amount.to_string())));
    let texts: Texts = texts.collect();
    (!texts.is_empty()).then_some(texts)
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        total
            .entry(name.clone())
            .and_modify(|sum| sum.add(amount))
            .or_insert_with(|| amount.clone());
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let sum = total.entry(name.clone()).or_insert_with(|| amount.clone());
        if *sum < *amount {
            *sum = amount.clone();
        }
    }
}

// --- List ---

impl List {
    fn list(self, resources: &ResourceRequirements) -> Option<&Texts> {
        match self {
            List::Requests => resources.requests.as_ref(),
            List::Limits => resources.limits.as_ref(),
        }
    }
    fn list_mut(self, resources: &mut ResourceRequirements) -> &mut Texts {
        let list = match self {
            List::Requests => &mut resources.requests,
            List::Limits => &mut resources.limits,
        };
        list.get_or_insert_default()
    }
}
