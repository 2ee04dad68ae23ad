//! What a pod asks of a node.

use serde::Deserialize;

use super::{RawContainer, RawSpec, ResourceList, Resources};
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

/// The part of a pod's status that says what was given to it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedStatus {
    /// By container.
    pub container_statuses: Vec<AllocatedContainer>,
    /// By init container.
    pub init_container_statuses: Vec<AllocatedContainer>,
    /// To the pod as a whole.
    pub allocated_resources: Option<ResourceList>,
    /// What the pod as a whole has.
    pub resources: Option<RawResources>,
    /// Whether a resize is found to be impossible.
    #[serde(skip)]
    pub infeasible: bool,
}

/// What was given to a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedContainer {
    /// Its name.
    pub name: String,
    /// What the node has put aside for it.
    pub allocated_resources: Option<ResourceList>,
    /// What it runs with.
    pub resources: Option<RawResources>,
}

/// Requests as they stand in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawResources {
    /// What is asked for.
    pub requests: Option<ResourceList>,
}

impl Requests {
    /// What a pod asks for before it runs.
    pub fn of_spec(spec: &RawSpec, interner: &mut StringInterner) -> Self {
        Self::sum(spec, None, interner)
    }

    /// What a pod on a node takes: as much as was asked, was put aside or is in use, whichever is more. `None` when
    /// its status says nothing about it.
    pub fn of_running(
        spec: &RawSpec,
        allocated: &AllocatedStatus,
        interner: &mut StringInterner,
    ) -> Option<Self> {
        let statuses = allocated
            .container_statuses
            .iter()
            .chain(&allocated.init_container_statuses);
        let error_message = statuses
            .into_iter()
            .any(|status| status.allocated_resources.is_some() || status.resources.is_some());
        (error_message || allocated.resources.is_some()).then(|| Self::sum(spec, Some(allocated), interner))
    }

    fn sum(spec: &RawSpec, allocated: Option<&AllocatedStatus>, interner: &mut StringInterner) -> Self {
        let mut total = |usual| total(spec, allocated, usual, interner);
        let asked = total((false, false));
        let pod_level = supported(spec.resources.requests.as_ref());
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
    spec: &RawSpec,
    allocated: Option<&AllocatedStatus>,
    usual: (bool, bool),
    interner: &mut StringInterner,
) -> Resources {
    let asked = |container: &RawContainer| container.resources.requests.clone();
    let mut sum = containers(spec, usual, asked, interner);
    if let Some(allocated) = allocated {
        let put_aside = |container: &RawContainer| {
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
        let in_use = |container: &RawContainer| {
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
    spec: &RawSpec,
    usual: (bool, bool),
    asked: impl Fn(&RawContainer) -> Option<ResourceList>,
    interner: &mut StringInterner,
) -> Resources {
    let mut of = |container: &RawContainer| {
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
        if container.stays() {
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
    spec: &RawSpec,
    allocated: Option<&AllocatedStatus>,
    interner: &mut StringInterner,
) {
    let mut asked = supported(spec.resources.requests.as_ref());
    if asked.is_empty() {
        return;
    }
    if let Some(resources) = allocated.and_then(|allocated| allocated.resources.as_ref()) {
        if allocated.is_some_and(|allocated| allocated.infeasible) {
            asked.clear();
        }
        let aside = allocated.and_then(|allocated| allocated.allocated_resources.as_ref());
        for more in [resources.requests.as_ref(), aside] {
            for (name, amount) in supported(more) {
                let known = asked.entry(name).or_default();
                known.value = known.value.max(amount.value);
                known.milli = known.milli.max(amount.milli);
            }
        }
    }
    let to_i64 = Resources::read(&asked, interner);
    for name in asked.keys() {
        match name.as_str() {
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
fn supported(amounts: Option<&ResourceList>) -> ResourceList {
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let amounts = amounts.into_iter().flatten();
    amounts
        .filter(|(name, _)| supported(name))
        .map(|(name, amount)| (name.clone(), *amount))
        .collect()
}

impl AllocatedStatus {
    fn of(&self, container: &str) -> Option<&AllocatedContainer> {
        let mut all = self
            .container_statuses
            .iter()
            .chain(&self.init_container_statuses);
        all.find(|status| status.name == container)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sum(spec: Value) -> Requests {
        let spec = serde_json::from_value(spec).unwrap();
        Requests::of_spec(&spec, &mut StringInterner::default())
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
        let spec = serde_json::from_value(spec).unwrap();
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
            let mut allocated: AllocatedStatus =
                serde_json::from_value(json!({"containerStatuses": [status]})).unwrap();
            allocated.infeasible = infeasible;
            let taken = Requests::of_running(&spec, &allocated, &mut StringInterner::default()).unwrap();
            assert_eq!(taken.asked.cpu, milli, "{allocated:?}");
        }
    }
}
