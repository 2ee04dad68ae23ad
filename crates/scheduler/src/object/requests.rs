//! What a pod asks of a node.

use std::collections::BTreeMap;

use k3_workloads::{
    Container, ContainerStatus, PodStatus, ResourceList, ResourceQuantity, Shared, TemplateSpec,
};

use super::Resources;
use crate::interner::StringInterner;

/// What a container that asks for no processor is taken to need when nodes are compared.
const DEFAULT_MILLI_CPU_REQUEST: i64 = 100;
/// What a container that asks for no memory is taken to need when nodes are compared.
const DEFAULT_MEMORY_REQUEST: i64 = 200 << 20;

/// What a pod asks for, in the three ways that it is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
// upstream: staging/src/k8s.io/component-helpers/resource/helpers.go PodRequests
pub struct Requests {
    /// What must be free.
    pub asked: Resources,
    /// Processor and memory with the usual amount for containers that ask for none: what a node counts.
    pub counted: (i64, i64),
    /// The same, as the pod itself is scored.
    pub scored: (i64, i64),
}

/// The part of a pod's status with allocated and actual resources.
#[derive(Clone, Copy, Debug)]
pub struct AllocatedStatus<'p> {
    /// The status.
    pub status: &'p PodStatus,
    /// Whether a resize is found to be impossible.
    pub infeasible: bool,
}

impl Requests {
    /// What a pod asks for before it runs.
    pub fn of_spec(spec: &TemplateSpec, interner: &mut StringInterner) -> Self {
        Self::sum(spec, None, interner)
    }

    /// What a pod on a node takes: as much as was asked, was put aside or is in use, whichever is more. `None` when
    /// its status has none.
    pub fn of_running(
        spec: &TemplateSpec,
        allocated: AllocatedStatus<'_>,
        interner: &mut StringInterner,
    ) -> Option<Self> {
        let mut statuses = allocated.containers();
        let has_resources =
            statuses.any(|status| status.allocated_resources.is_some() || status.resources.is_some());
        (has_resources || allocated.status.resources.is_some())
            .then(|| Self::sum(spec, Some(allocated), interner))
    }

    fn sum(
        spec: &TemplateSpec,
        allocated: Option<AllocatedStatus<'_>>,
        interner: &mut StringInterner,
    ) -> Self {
        let mut total = |usual| total(spec, allocated, usual, interner);
        let asked = total((false, false));
        let pod_level = supported(spec.resources.requests.as_deref());
        // A pod that asks as a whole has its containers filled up only where nothing at all is asked for.
        let counted = if pod_level.is_empty() {
            total((true, true))
        } else {
            total((asked.cpu == 0, asked.memory == 0))
        };
        let scored = total((true, true));
        Requests {
            counted: (counted.cpu, counted.memory),
            scored: (scored.cpu, scored.memory),
            asked,
        }
    }
}

fn total(
    spec: &TemplateSpec,
    allocated: Option<AllocatedStatus<'_>>,
    usual: (bool, bool),
    interner: &mut StringInterner,
) -> Resources {
    let asked = |container: &Container| container.resources.requests.clone();
    let mut sum = containers(spec, usual, asked, interner);
    if let Some(allocated) = allocated {
        let put_aside = |container: &Container| {
            let status = allocated.of(&container.name);
            let aside = status.and_then(|status| status.allocated_resources.clone());
            aside.or_else(|| {
                container
                    .resources
                    .requests
                    .clone()
                    .filter(|_| !allocated.infeasible)
            })
        };
        let in_use = |container: &Container| {
            let status = allocated.of(&container.name);
            let running = status.and_then(|status| status.resources.as_ref()?.requests.clone());
            running.or_else(|| put_aside(container))
        };
        let mut most = containers(spec, usual, in_use, interner);
        most.raise(&containers(spec, usual, put_aside, interner));
        if allocated.infeasible {
            sum = most;
        } else {
            sum.raise(&most);
        }
    }
    pod_level(&mut sum, spec, allocated, interner);
    sum.add(&Resources::read(&spec.overhead, interner));
    sum
}

/// Containers together, or the neediest step of the init containers, whichever is more. Init containers that go on
/// running count from their start.
fn containers(
    spec: &TemplateSpec,
    usual: (bool, bool),
    asked: impl Fn(&Container) -> Option<Shared<ResourceList>>,
    interner: &mut StringInterner,
) -> Resources {
    let mut of = |container: &Container| {
        let amounts = asked(container).unwrap_or_default();
        let mut resources = Resources::read(&amounts, interner);
        if usual.0 && !amounts.contains_key("cpu") {
            resources.cpu = DEFAULT_MILLI_CPU_REQUEST;
        }
        if usual.1 && !amounts.contains_key("memory") {
            resources.memory = DEFAULT_MEMORY_REQUEST;
        }
        resources
    };
    let mut sum = Resources::default();
    for container in &spec.containers {
        sum.add(&of(container));
    }
    let mut staying = Resources::default();
    let mut starting = Resources::default();
    for container in &spec.init_containers {
        let mut step = of(container);
        if container.is_sidecar {
            sum.add(&step);
            staying.add(&step);
            step = staying.clone();
        } else {
            step.add(&staying);
        }
        starting.raise(&step);
    }
    sum.raise(&starting);
    sum
}

/// What the pod asks for as a whole takes the place of what its containers ask for.
fn pod_level(
    sum: &mut Resources,
    spec: &TemplateSpec,
    allocated: Option<AllocatedStatus<'_>>,
    interner: &mut StringInterner,
) {
    let mut asked = supported(spec.resources.requests.as_deref());
    if asked.is_empty() {
        return;
    }
    if let Some(allocated) = allocated
        && let Some(resources) = &allocated.status.resources
    {
        if allocated.infeasible {
            asked.clear();
        }
        let aside = allocated.status.allocated_resources.as_deref();
        for more in [resources.requests.as_deref(), aside] {
            for (name, amount) in supported(more) {
                let known = asked.entry(name).or_default();
                known.value = known.value.max(amount.value);
                known.milli = known.milli.max(amount.milli);
            }
        }
    }
    let to_i64 = Resources::read(&asked, interner);
    for name in asked.keys() {
        match &**name {
            "cpu" => sum.cpu = to_i64.cpu,
            "memory" => sum.memory = to_i64.memory,
            name => {
                sum.scalars.retain(|(known, _)| &**known != name);
            }
        }
    }
    sum.add(&Resources {
        scalars: to_i64.scalars,
        ..Resources::default()
    });
}

/// What may be asked for by a pod as a whole.
fn supported(amounts: Option<&ResourceList>) -> BTreeMap<Box<str>, ResourceQuantity> {
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let amounts = amounts.into_iter().flat_map(|amounts| amounts.iter());
    amounts
        .filter(|(name, _)| supported(name))
        .map(|(name, amount)| (name.clone(), *amount))
        .collect()
}

// --- AllocatedStatus ---

impl<'p> AllocatedStatus<'p> {
    fn containers(self) -> impl Iterator<Item = &'p ContainerStatus> {
        let init_containers = self.status.init_container_statuses.iter();
        self.status.container_statuses.iter().chain(init_containers)
    }

    fn of(self, container: &str) -> Option<&'p ContainerStatus> {
        self.containers().find(|status| &*status.name == container)
    }
}

#[cfg(test)]
mod tests {
    use k3_workloads::PodSpec;
    use serde_json::{Value, json};

    use super::*;

    fn sum(spec: Value) -> Requests {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        Requests::of_spec(&spec.template, &mut StringInterner::default())
    }

    fn cpu(amount: &str) -> Value {
        json!({"resources": {"requests": {"cpu": amount}}})
    }

    #[test]
    fn the_neediest_moment_counts() {
        let staying = |amount| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": amount}}});
        for (spec, milli) in [
            (json!({"containers": [cpu("1"), cpu("500m")]}), 1500),
            (
                json!({"containers": [cpu("1")], "initContainers": [cpu("3"), cpu("2")]}),
                3000,
            ),
            (
                json!({"containers": [cpu("1")], "initContainers": [staying("1"), cpu("2")]}),
                3000,
            ),
            (
                json!({"containers": [cpu("1")], "initContainers": [cpu("2"), staying("2")]}),
                3000,
            ),
            (
                json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}),
                1250,
            ),
            (
                json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "4"}}}),
                4000,
            ),
        ] {
            assert_eq!(sum(spec.clone()).asked.cpu, milli, "{spec}");
        }
    }

    #[test]
    fn containers_that_ask_for_nothing_are_counted_with_the_usual() {
        let nothing = sum(json!({"containers": [{}, cpu("1")]}));
        assert_eq!(nothing.asked.cpu, 1000);
        assert_eq!(nothing.counted, (1100, 2 * DEFAULT_MEMORY_REQUEST));
        assert_eq!(nothing.scored, (1100, 2 * DEFAULT_MEMORY_REQUEST));
    }

    #[test]
    fn a_running_pod_takes_the_most_of_asked_put_aside_and_used() {
        let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]});
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        for (status, infeasible, milli) in [
            (json!({"allocatedResources": {"cpu": "1"}}), false, 2000),
            (json!({"allocatedResources": {"cpu": "3"}}), false, 3000),
            (
                json!({"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "4"}}}),
                false,
                4000,
            ),
            (json!({"allocatedResources": {"cpu": "1"}}), true, 1000),
        ] {
            let mut status = status;
            status["name"] = "c".into();
            let status: PodStatus = serde_json::from_value(json!({"containerStatuses": [status]})).unwrap();
            let allocated = AllocatedStatus {
                status: &status,
                infeasible,
            };
            let mut interner = StringInterner::default();
            let taken = Requests::of_running(&spec.template, allocated, &mut interner).unwrap();
            assert_eq!(taken.asked.cpu, milli, "{allocated:?}");
        }
    }
}
