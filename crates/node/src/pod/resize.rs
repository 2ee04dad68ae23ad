//! Resources that change while a pod runs: what this node grants, and what containers were given.
//!
//! What was granted and given is kept in the pod's folder, so that a restart of the agent neither takes back what was granted
//! nor gives it again.

use std::{collections::BTreeMap, io, path::Path};

use k3_quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use serde::{Deserialize, Serialize};

const FILE: &str = "resources.json";

/// CPU in thousandths and memory in bytes; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Asked for.
    pub cpu_request: i64,
    /// At most.
    pub cpu_limit: i64,
    /// Asked for.
    pub memory_request: i64,
    /// At most.
    pub memory_limit: i64,
}

/// What is kept of a pod's resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// What this node has granted, by the name of the container.
    #[serde(default)]
    pub allocated: BTreeMap<String, ResourceRequirements>,
    /// What containers were last given.
    #[serde(default)]
    pub actuated: BTreeMap<String, ResourceRequirements>,
}

/// Why a change of resources does not happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It never will.
    Infeasible(String),
    /// It waits for others to leave.
    Deferred(String),
}

// --- Figures ---

impl Figures {
    /// What a container asks for.
    pub(super) fn of(container: &Container) -> Self {
        container
            .resources
            .as_ref()
            .map(Figures::of_resources)
            .unwrap_or_default()
    }

    /// The same, of what is written down.
    pub(super) fn of_resources(resources: &ResourceRequirements) -> Self {
        let of =
            |list: &Option<BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>,
             name: &str,
             scale: fn(&Quantity) -> i64| {
                let found = list.as_ref().and_then(|list| list.get(name));
                let read = found.and_then(|quantity| quantity.0.parse::<Quantity>().ok());
                read.map_or(0, |quantity| scale(&quantity))
            };
        let cpu_limit = of(&resources.limits, "cpu", milli);
        let memory_limit = of(&resources.limits, "memory", whole);
        let cpu_request = of(&resources.requests, "cpu", milli);
        let memory_request = of(&resources.requests, "memory", whole);
        Figures {
            cpu_request,
            cpu_limit,
            memory_request,
            memory_limit,
        }
    }

    /// Whether the container asked to be begun anew when one of its figures changes.
    pub(super) fn needs_restart(&self, has: &Figures, container: &Container) -> bool {
        let restarts = |resource: &str| {
            let mut policies = container.resize_policy.iter().flatten();
            policies
                .any(|policy| policy.resource_name == resource && policy.restart_policy == "RestartContainer")
        };
        let cpu = (self.cpu_request, self.cpu_limit) != (has.cpu_request, has.cpu_limit);
        let memory = (self.memory_request, self.memory_limit) != (has.memory_request, has.memory_limit);
        (cpu && restarts("cpu")) || (memory && restarts("memory"))
    }
}

fn milli(quantity: &Quantity) -> i64 {
    quantity.milli_value()
}

fn whole(quantity: &Quantity) -> i64 {
    quantity.value()
}

// --- Kept ---

impl Kept {
    /// What was kept; nothing if the pod is new here.
    pub(super) fn read(folder: &Path) -> Self {
        let read = std::fs::read(folder.join(FILE)).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Keeps it. Written whole and then put in place: a reader never sees half of it.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let new = folder.join(".resources.json");
        std::fs::write(&new, serde_json::to_vec(self)?)?;
        std::fs::rename(new, folder.join(FILE))
    }

    /// The pod with the resources that were granted it.
    pub(super) fn granted(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        for container in containers_mut(&mut pod) {
            if let Some(resources) = self.allocated.get(&container.name) {
                container.resources = Some(resources.clone());
            }
        }
        pod
    }

    /// Grants what the pod asks for now.
    pub(super) fn grant(&mut self, pod: &Pod) {
        let mut pod = pod.clone();
        self.allocated = containers_mut(&mut pod)
            .map(|container| {
                (
                    container.name.clone(),
                    container.resources.clone().unwrap_or_default(),
                )
            })
            .collect();
    }

    /// Whether the pod asks for something else than was granted.
    pub(super) fn differs(&self, pod: &Pod) -> bool {
        let mut pod = pod.clone();
        containers_mut(&mut pod).any(|container| {
            self.allocated
                .get(&container.name)
                .is_some_and(|granted| Figures::of_resources(granted) != Figures::of(container))
        })
    }

    /// Whether containers have yet to be given what was granted.
    pub(super) fn is_in_progress(&self) -> bool {
        self.allocated.iter().any(|(name, granted)| {
            let actuated = self.actuated.get(name);
            actuated.is_some_and(|has| Figures::of_resources(has) != Figures::of_resources(granted))
        })
    }
}

/// Those whose resources may change.
fn containers_mut(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    let spec = pod.spec.iter_mut();
    spec.flat_map(|spec| {
        spec.init_containers
            .iter_mut()
            .flatten()
            .chain(&mut spec.containers)
    })
}
