//! Resource usage of pods, measured only before an eviction.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::{
    PodIdentity,
    agent::runtime_monitor::RuntimeReceiver,
    runtime::{ContainerStats, RuntimeError},
};

/// Timeout of measuring the containers.
const USAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Disk usage of a volume directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct DirectoryUsage {
    pub(in crate::agent) bytes: u64,
    pub(in crate::agent) inodes: u64,
}

/// Resource usage of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodUsage {
    /// Usage of its containers. The sandbox has an empty name.
    pub(super) containers: Vec<ContainerStats>,
    /// Usage of its local volumes by name.
    pub(super) volumes: BTreeMap<String, DirectoryUsage>,
}

/// Measures the local volumes of a pod by name.
pub(in crate::agent) type MeasureVolumes =
    Arc<dyn Fn(PodIdentity) -> BoxFuture<'static, BTreeMap<String, DirectoryUsage>> + Send + Sync>;

/// Measures the resource usage of pods.
pub(super) struct PodUsageProvider {
    pub(super) runtime: RuntimeReceiver,
    pub(super) volumes: MeasureVolumes,
}

impl PodUsageProvider {
    /// Usage of the containers of all pods, by pod UID.
    pub(super) async fn container_usage(&self) -> Result<BTreeMap<String, PodUsage>, RuntimeError> {
        let Some(runtime) = self.runtime.borrow().clone() else {
            return Ok(BTreeMap::new());
        };
        let usages = timeout(USAGE_TIMEOUT, runtime.list_container_stats())
            .await
            .unwrap_or_else(|_| {
                Err(RuntimeError::Timeout {
                    what: "measuring containers".to_owned(),
                    after: USAGE_TIMEOUT,
                })
            })?;
        let mut pods: BTreeMap<String, PodUsage> = BTreeMap::new();
        for usage in usages {
            pods.entry(usage.pod.uid.clone())
                .or_default()
                .containers
                .push(usage);
        }
        Ok(pods)
    }
}

impl PodUsage {
    pub(super) fn memory_working_set(&self) -> u64 {
        self.containers.iter().map(|usage| usage.memory_working_set).sum()
    }

    pub(super) fn processes(&self) -> u64 {
        self.containers.iter().map(|usage| usage.pids).sum()
    }

    /// Bytes in the writable layers of its containers and in its volumes.
    pub(super) fn disk(&self) -> u64 {
        let volumes: u64 = self.volumes.values().map(|used| used.bytes).sum();
        self.writable_layers() + volumes
    }

    /// Bytes in the writable layers of its containers.
    pub(super) fn writable_layers(&self) -> u64 {
        self.containers.iter().map(|usage| usage.writable_layer).sum()
    }

    pub(super) fn inodes(&self) -> u64 {
        self.volumes.values().map(|used| used.inodes).sum()
    }

    /// Usage of a container, if measured.
    pub(super) fn container(&self, name: &str) -> Option<&ContainerStats> {
        self.containers.iter().find(|usage| usage.name == name)
    }
}
