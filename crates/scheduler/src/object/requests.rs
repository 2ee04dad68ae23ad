//! What a pod asks of a node.

use serde::Deserialize;

use super::{Amounts, RawContainer, RawSpec, Resources};
use crate::pool::Pools;

/// What a container that asks for no processor is taken to need when nodes are compared.
const USUAL_CPU: i64 = 100;
/// What a container that asks for no memory is taken to need when nodes are compared.
const USUAL_MEMORY: i64 = 200 << 20;

/// What a pod asks for, in the three ways that it is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
pub struct Given {
    /// By container.
    pub container_statuses: Vec<GivenContainer>,
    /// By init container.
    pub init_container_statuses: Vec<GivenContainer>,
    /// To the pod as a whole.
    pub allocated_resources: Option<Amounts>,
    /// What the pod as a whole has.
    pub resources: Option<RawResources>,
    /// Whether a resize is found to be impossible.
    #[serde(skip)]
    pub infeasible: bool,
}

/// What was given to a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GivenContainer {
    /// Its name.
    pub name: String,
    /// What the node has put aside for it.
    pub allocated_resources: Option<Amounts>,
    /// What it runs with.
    pub resources: Option<RawResources>,
}

/// Requests as they stand in an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawResources {
    /// What is asked for.
    pub requests: Option<Amounts>,
}

impl Requests {
    /// What a pod asks for before it runs.
    pub fn of_spec(spec: &RawSpec, pools: &mut Pools) -> Self {
        Self::sum(spec, None, pools)
    }

    /// What a pod on a node takes: as much as was asked, was put aside or is in use, whichever is more. `None` when
    /// its status says nothing about it.
    pub fn of_running(spec: &RawSpec, given: &Given, pools: &mut Pools) -> Option<Self> {
        let statuses = given
            .container_statuses
            .iter()
            .chain(&given.init_container_statuses);
        let said = statuses
            .into_iter()
            .any(|status| status.allocated_resources.is_some() || status.resources.is_some());
        (said || given.resources.is_some()).then(|| Self::sum(spec, Some(given), pools))
    }

    fn sum(spec: &RawSpec, given: Option<&Given>, pools: &mut Pools) -> Self {
        let mut total = |usual| total(spec, given, usual, pools);
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

fn total(spec: &RawSpec, given: Option<&Given>, usual: (bool, bool), pools: &mut Pools) -> Resources {
    let asked = |container: &RawContainer| container.resources.requests.clone();
    let mut sum = containers(spec, usual, asked, pools);
    if let Some(given) = given {
        let put_aside = |container: &RawContainer| {
            let status = given.of(&container.name);
            let aside = status.and_then(|status| status.allocated_resources.clone());
            aside.or_else(|| container.resources.requests.clone().filter(|_| !given.infeasible))
        };
        let in_use = |container: &RawContainer| {
            let status = given.of(&container.name);
            let running = status.and_then(|status| status.resources.as_ref()?.requests.clone());
            running.or_else(|| put_aside(container))
        };
        let mut most = containers(spec, usual, in_use, pools);
        most.raise(&containers(spec, usual, put_aside, pools));
        if given.infeasible {
            sum = most;
        } else {
            sum.raise(&most);
        }
    }
    pod_level(&mut sum, spec, given, pools);
    sum.add(&Resources::read(&spec.overhead, pools));
    sum
}

/// Containers together, or the neediest step of the init containers, whichever is more. Init containers that go on
/// running count from their start.
fn containers(
    spec: &RawSpec,
    usual: (bool, bool),
    asked: impl Fn(&RawContainer) -> Option<Amounts>,
    pools: &mut Pools,
) -> Resources {
    let mut of = |container: &RawContainer| {
        let amounts = asked(container).unwrap_or_default();
        let mut resources = Resources::read(&amounts, pools);
        if usual.0 && !amounts.contains_key("cpu") {
            resources.cpu = USUAL_CPU;
        }
        if usual.1 && !amounts.contains_key("memory") {
            resources.memory = USUAL_MEMORY;
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
fn pod_level(sum: &mut Resources, spec: &RawSpec, given: Option<&Given>, pools: &mut Pools) {
    let mut asked = supported(spec.resources.requests.as_ref());
    if asked.is_empty() {
        return;
    }
    if let Some(resources) = given.and_then(|given| given.resources.as_ref()) {
        if given.is_some_and(|given| given.infeasible) {
            asked.clear();
        }
        let aside = given.and_then(|given| given.allocated_resources.as_ref());
        for more in [resources.requests.as_ref(), aside] {
            for (name, amount) in supported(more) {
                let known = asked.entry(name).or_default();
                known.value = known.value.max(amount.value);
                known.milli = known.milli.max(amount.milli);
            }
        }
    }
    let whole = Resources::read(&asked, pools);
    for name in asked.keys() {
        match name.as_str() {
            "cpu" => sum.cpu = whole.cpu,
            "memory" => sum.memory = whole.memory,
            name => {
                sum.scalars.retain(|(known, _)| &**known != name);
            }
        }
    }
    sum.add(&Resources {
        scalars: whole.scalars,
        ..Resources::default()
    });
}

/// What may be asked for by a pod as a whole.
fn supported(amounts: Option<&Amounts>) -> Amounts {
    let supported = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    let amounts = amounts.into_iter().flatten();
    amounts
        .filter(|(name, _)| supported(name))
        .map(|(name, amount)| (name.clone(), *amount))
        .collect()
}

impl Given {
    fn of(&self, container: &str) -> Option<&GivenContainer> {
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
        Requests::of_spec(&spec, &mut Pools::default())
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
        assert_eq!(nothing.counted, (1100, 2 * USUAL_MEMORY));
        assert_eq!(nothing.scored, (1100, 2 * USUAL_MEMORY));
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
            let mut given: Given = serde_json::from_value(json!({"containerStatuses": [status]})).unwrap();
            given.infeasible = infeasible;
            let taken = Requests::of_running(&spec, &given, &mut Pools::default()).unwrap();
            assert_eq!(taken.asked.cpu, milli, "{given:?}");
        }
    }
}
