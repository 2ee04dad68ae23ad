//! Resource usage of containers: from the runtime, or from cgroups if it has no stats calls.
// upstream: pkg/kubelet/stats/cri_stats_provider.go criStatsProvider

use std::collections::HashMap;

use crate::{
    blocking::run_blocking,
    runtime::{ContainerStats, RuntimeError, SandboxId, SandboxState, labels},
};

use super::{
    CriRuntime, cgroup, convert,
    messages::{self, method},
};

impl CriRuntime {
    /// Returns the usage of containers; for sandboxes the network and the number of processes. CPU and memory of a pod are the sum of its
    /// containers.
    pub(super) async fn query_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        let listed = self.list_own_containers("", "").await?;
        let mut usages = match self.container_stats_from_runtime().await? {
            Some(stats) => stats,
            None => self.container_stats_from_cgroups(&listed).await?,
        };
        usages.extend(match self.sandbox_stats_from_runtime().await? {
            Some(stats) => stats,
            None => self.sandbox_stats_from_kernel(&listed).await?,
        });
        Ok(usages)
    }

    async fn container_stats_from_runtime(&self) -> Result<Option<Vec<ContainerStats>>, RuntimeError> {
        let request = messages::ListContainerStatsRequest {
            filter: Some(messages::ContainerStatsFilter {
                label_selector: self.node_selector(),
            }),
        };
        let limit = self.timeouts.query;
        let response: Result<messages::ListContainerStatsResponse, _> = self
            .connection
            .call(method::LIST_CONTAINER_STATS, request, limit)
            .await;
        match response {
            Ok(response) => {
                let is_owned = |stats: &messages::ContainerStats| {
                    let attributes = stats.attributes.as_ref();
                    attributes.is_some_and(|attributes| self.owner.owns(|name| attributes.labels.get(name)))
                };
                let owned = response.stats.into_iter().filter(is_owned);
                Ok(Some(owned.filter_map(container_stats).collect()))
            }
            Err(error) if error.is_unimplemented() => Ok(None),
            Err(error) => Err(self.runtime_error(error, "container stats", limit)),
        }
    }

    async fn sandbox_stats_from_runtime(&self) -> Result<Option<Vec<ContainerStats>>, RuntimeError> {
        let request = messages::ListPodSandboxStatsRequest {
            filter: Some(messages::PodSandboxStatsFilter {
                label_selector: self.node_selector(),
            }),
        };
        let limit = self.timeouts.query;
        let response: Result<messages::ListPodSandboxStatsResponse, _> = self
            .connection
            .call(method::LIST_POD_SANDBOX_STATS, request, limit)
            .await;
        match response {
            Ok(response) => {
                let is_owned = |stats: &messages::PodSandboxStats| {
                    let attributes = stats.attributes.as_ref();
                    attributes.is_some_and(|attributes| self.owner.owns(|name| attributes.labels.get(name)))
                };
                let owned = response.stats.into_iter().filter(is_owned);
                Ok(Some(owned.filter_map(sandbox_stats).collect()))
            }
            // Old runtimes fail the whole call while one sandbox is stopping.
            Err(_) => Ok(None),
        }
    }

    async fn container_stats_from_cgroups(
        &self,
        listed: &[messages::Container],
    ) -> Result<Vec<ContainerStats>, RuntimeError> {
        let mut usages = Vec::new();
        let cgroups = self.cgroups;
        for container in listed {
            let Some(process) = self.container_process(container).await? else {
                continue;
            };
            let Ok(stats) = run_blocking(move || cgroup::cgroup_stats(process, cgroups)).await else {
                continue;
            };
            let Some(name) = container.labels.get(labels::CONTAINER_NAME) else {
                continue;
            };
            usages.push(ContainerStats {
                pod: convert::pod(&container.labels),
                name: name.clone(),
                cpu_nanoseconds: stats.cpu_nanoseconds,
                memory: stats.memory,
                memory_working_set: stats.working_set,
                pids: stats.pids,
                ..ContainerStats::default()
            });
        }
        Ok(usages)
    }

    /// Pods without a running container have no relevant traffic, so their sandboxes are not inspected.
    async fn sandbox_stats_from_kernel(
        &self,
        listed: &[messages::Container],
    ) -> Result<Vec<ContainerStats>, RuntimeError> {
        let mut first: HashMap<&str, &messages::Container> = HashMap::new();
        for container in listed {
            if container.state == i32::from(messages::ContainerState::Running) {
                first.entry(&container.pod_sandbox_id).or_insert(container);
            }
        }
        let mut usages = Vec::new();
        for sandbox in self.query_sandboxes().await? {
            let SandboxId(id) = &sandbox.id;
            // With the host network, the traffic is not the pod's.
            if sandbox.state != SandboxState::Ready || sandbox.addresses.is_empty() {
                continue;
            }
            let Some(container) = first.get(id.as_str()) else {
                continue;
            };
            let Some(process) = self.container_process(container).await? else {
                continue;
            };
            let Ok(traffic) = run_blocking(move || cgroup::traffic(process)).await else {
                continue;
            };
            usages.push(ContainerStats {
                pod: sandbox.pod,
                network: Some(traffic),
                ..ContainerStats::default()
            });
        }
        Ok(usages)
    }
}

fn container_stats(stats: messages::ContainerStats) -> Option<ContainerStats> {
    let attributes = stats.attributes?;
    // Some runtimes list exited containers, without CPU and memory.
    let cpu = stats.cpu?;
    let memory = stats.memory?;
    let name = attributes.labels.get(labels::CONTAINER_NAME).cloned();
    Some(ContainerStats {
        pod: convert::pod(&attributes.labels),
        name: name.or(attributes.metadata.map(|metadata| metadata.name))?,
        cpu_nanoseconds: value(cpu.usage_core_nano_seconds),
        memory: memory
            .usage_bytes
            .or(memory.working_set_bytes)
            .unwrap_or_default()
            .value,
        memory_working_set: value(memory.working_set_bytes),
        writable_layer: value(stats.writable_layer.and_then(|layer| layer.used_bytes)),
        ..ContainerStats::default()
    })
}

fn sandbox_stats(stats: messages::PodSandboxStats) -> Option<ContainerStats> {
    let attributes = stats.attributes?;
    let linux = stats.linux?;
    let network = linux.network.and_then(|network| network.default_interface);
    Some(ContainerStats {
        pod: convert::pod(&attributes.labels),
        pids: value(linux.process.and_then(|process| process.process_count)),
        network: network.map(|interface| (value(interface.rx_bytes), value(interface.tx_bytes))),
        ..ContainerStats::default()
    })
}

fn value(number: Option<messages::UInt64Value>) -> u64 {
    number.unwrap_or_default().value
}
