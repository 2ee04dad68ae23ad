//! What containers use: told by the runtime, or read from the kernel where it does not tell.

use std::collections::HashMap;

use tokio::task::spawn_blocking;

use crate::runtime::{ContainerUsage, RuntimeError, SandboxId, SandboxState, labels};

use super::{
    Cri, cgroup,
    messages::{self, method},
    state,
};

impl Cri {
    /// Of each container, and of each sandbox its network and the number of processes in the pod. What a pod uses of processors and
    /// memory is the sum of its containers.
    pub(super) async fn tell_usage(&self) -> Result<Vec<ContainerUsage>, RuntimeError> {
        let listed = self.listed_containers("", "").await?;
        let mut usages = match self.told_containers().await? {
            Some(told) => told,
            None => self.counted_containers(&listed).await?,
        };
        usages.extend(match self.told_sandboxes().await? {
            Some(told) => told,
            None => self.counted_sandboxes(&listed).await?,
        });
        Ok(usages)
    }

    async fn told_containers(&self) -> Result<Option<Vec<ContainerUsage>>, RuntimeError> {
        let request = messages::ListContainerStatsRequest {
            filter: Some(messages::ContainerStatsFilter {
                label_selector: self.ours(),
            }),
        };
        let limit = self.limits.query;
        let told: Result<messages::ListContainerStatsResponse, _> = self
            .connection
            .call(method::LIST_CONTAINER_STATS, request, limit)
            .await;
        match told {
            Ok(told) => {
                let is_ours = |stats: &messages::ContainerStats| {
                    let attributes = stats.attributes.as_ref();
                    attributes.is_some_and(|told| self.owner.owns(|name| told.labels.get(name)))
                };
                let ours = told.stats.into_iter().filter(is_ours);
                Ok(Some(ours.filter_map(of_container).collect()))
            }
            Err(failure) if failure.is_unimplemented() => Ok(None),
            Err(failure) => Err(self.explain(failure, "figures of containers", limit)),
        }
    }

    async fn told_sandboxes(&self) -> Result<Option<Vec<ContainerUsage>>, RuntimeError> {
        let request = messages::ListPodSandboxStatsRequest {
            filter: Some(messages::PodSandboxStatsFilter {
                label_selector: self.ours(),
            }),
        };
        let limit = self.limits.query;
        let told: Result<messages::ListPodSandboxStatsResponse, _> = self
            .connection
            .call(method::LIST_POD_SANDBOX_STATS, request, limit)
            .await;
        match told {
            Ok(told) => {
                let is_ours = |stats: &messages::PodSandboxStats| {
                    let attributes = stats.attributes.as_ref();
                    attributes.is_some_and(|told| self.owner.owns(|name| told.labels.get(name)))
                };
                let ours = told.stats.into_iter().filter(is_ours);
                Ok(Some(ours.filter_map(of_sandbox).collect()))
            }
            // Old ones fail for all sandboxes when one of them is just ending.
            Err(_) => Ok(None),
        }
    }

    async fn counted_containers(
        &self,
        listed: &[messages::Container],
    ) -> Result<Vec<ContainerUsage>, RuntimeError> {
        let mut usages = Vec::new();
        let cgroups = self.cgroups;
        for container in listed {
            let Some(process) = self.container_process(container).await? else {
                continue;
            };
            let Ok(Ok(figures)) = spawn_blocking(move || cgroup::figures(process, cgroups)).await else {
                continue;
            };
            usages.push(ContainerUsage {
                pod: state::pod(&container.labels),
                name: container
                    .labels
                    .get(labels::CONTAINER_NAME)
                    .cloned()
                    .unwrap_or_default(),
                cpu_nanoseconds: figures.cpu_nanoseconds,
                memory: figures.memory,
                memory_working_set: figures.working_set,
                pids: figures.pids,
                ..ContainerUsage::default()
            });
        }
        Ok(usages)
    }

    /// A pod without a container that runs has no traffic that matters, so that nobody is asked for the process of its sandbox.
    async fn counted_sandboxes(
        &self,
        listed: &[messages::Container],
    ) -> Result<Vec<ContainerUsage>, RuntimeError> {
        let mut first: HashMap<&str, &messages::Container> = HashMap::new();
        for container in listed {
            if container.state == i32::from(messages::ContainerState::Running) {
                first.entry(&container.pod_sandbox_id).or_insert(container);
            }
        }
        let mut usages = Vec::new();
        for sandbox in self.list_sandboxes().await? {
            let SandboxId(id) = &sandbox.id;
            // With the host's network, the traffic is not the pod's.
            if sandbox.state != SandboxState::Ready || sandbox.addresses.is_empty() {
                continue;
            }
            let Some(container) = first.get(id.as_str()) else {
                continue;
            };
            let Some(process) = self.container_process(container).await? else {
                continue;
            };
            let Ok(Ok(traffic)) = spawn_blocking(move || cgroup::traffic(process)).await else {
                continue;
            };
            usages.push(ContainerUsage {
                pod: sandbox.pod,
                network: Some(traffic),
                ..ContainerUsage::default()
            });
        }
        Ok(usages)
    }
}

fn of_container(stats: messages::ContainerStats) -> Option<ContainerUsage> {
    let attributes = stats.attributes?;
    // What has ended has no figures; some runtimes list it all the same.
    let cpu = stats.cpu?;
    let memory = stats.memory?;
    let name = attributes.labels.get(labels::CONTAINER_NAME).cloned();
    Some(ContainerUsage {
        pod: state::pod(&attributes.labels),
        name: name.or(attributes.metadata.map(|metadata| metadata.name))?,
        cpu_nanoseconds: value(cpu.usage_core_nano_seconds),
        memory: memory
            .usage_bytes
            .or(memory.working_set_bytes)
            .unwrap_or_default()
            .value,
        memory_working_set: value(memory.working_set_bytes),
        writable_layer: value(stats.writable_layer.and_then(|layer| layer.used_bytes)),
        ..ContainerUsage::default()
    })
}

fn of_sandbox(stats: messages::PodSandboxStats) -> Option<ContainerUsage> {
    let attributes = stats.attributes?;
    let linux = stats.linux?;
    let network = linux.network.and_then(|network| network.default_interface);
    Some(ContainerUsage {
        pod: state::pod(&attributes.labels),
        pids: value(linux.process.and_then(|process| process.process_count)),
        network: network.map(|interface| (value(interface.rx_bytes), value(interface.tx_bytes))),
        ..ContainerUsage::default()
    })
}

fn value(figure: Option<messages::UInt64Value>) -> u64 {
    figure.unwrap_or_default().value
}
