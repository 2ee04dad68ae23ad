//! What pods use, measured when somebody has to go.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::{
    PodIdentity,
    agent::link::RuntimeWatch,
    runtime::{ContainerUsage, RuntimeError},
};

/// How long a runtime may take to tell what containers use.
const LIMIT: Duration = Duration::from_secs(30);

/// What a folder takes on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::agent) struct FolderUse {
    pub(in crate::agent) bytes: u64,
    pub(in crate::agent) inodes: u64,
}

/// What a pod uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PodUsage {
    /// Its containers; the sandbox has no name.
    pub(super) containers: Vec<ContainerUsage>,
    /// What its own volumes take, by name.
    pub(super) volumes: BTreeMap<String, FolderUse>,
}

/// Measures the volumes of a pod that are its own, by name.
pub(in crate::agent) type MeasureVolumes =
    Arc<dyn Fn(PodIdentity) -> BoxFuture<'static, BTreeMap<String, FolderUse>> + Send + Sync>;

/// Measures pods.
pub(super) struct Meter {
    pub(super) runtime: RuntimeWatch,
    pub(super) volumes: MeasureVolumes,
}

impl Meter {
    /// What the containers of all pods use, by the uid of their pod.
    pub(super) async fn containers(&self) -> Result<BTreeMap<String, PodUsage>, RuntimeError> {
        let Some(runtime) = self.runtime.borrow().clone() else {
            return Ok(BTreeMap::new());
        };
        let usages = timeout(LIMIT, runtime.usage()).await.unwrap_or_else(|_| {
            Err(RuntimeError::Timeout {
                what: "figures of containers".to_owned(),
                after: LIMIT,
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

    /// What its containers wrote and its volumes hold, in bytes.
    pub(super) fn disk(&self) -> u64 {
        let volumes: u64 = self.volumes.values().map(|used| used.bytes).sum();
        self.writable_layers() + volumes
    }

    /// What its containers wrote beside volumes, in bytes.
    pub(super) fn writable_layers(&self) -> u64 {
        self.containers.iter().map(|usage| usage.writable_layer).sum()
    }

    pub(super) fn inodes(&self) -> u64 {
        self.volumes.values().map(|used| used.inodes).sum()
    }

    /// A container, if it was measured.
    pub(super) fn container(&self, name: &str) -> Option<&ContainerUsage> {
        self.containers.iter().find(|usage| usage.name == name)
    }
}
