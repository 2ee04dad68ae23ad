//! Removes what a running pod no longer needs: dead containers and sandboxes that newer ones replaced.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go containerGC

use std::{collections::BTreeSet, time::Duration};

use super::status::PodSnapshot;
use crate::{
    images::with_timeout,
    runtime::{ContainerId, ContainerState, Runtime, SandboxId, SandboxState},
};

/// Removes dead containers and sandboxes.
pub(super) struct ContainerGc<'a> {
    pub runtime: &'a dyn Runtime,
    /// Timeout of each runtime call.
    pub limit: Duration,
}

/// Containers and sandboxes of a running pod that can be removed.
#[derive(Debug, Default, PartialEq, Eq)]
struct PrunableContainers {
    /// Dead containers that are not the newest of their name.
    containers: Vec<ContainerId>,
    /// Dead sandboxes that are not the newest, and have no containers.
    sandboxes: Vec<SandboxId>,
}

// --- ContainerGc ---

impl ContainerGc<'_> {
    /// Removes dead containers except the newest of each name, and sandboxes without containers. What cannot be removed now is tried
    /// again by the next sync.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_gc.go evictContainers, evictSandboxes
    pub(super) async fn prune(&self, snapshot: &PodSnapshot) {
        let prunable = find_prunable_containers(snapshot);
        for id in prunable.containers {
            let removed =
                with_timeout(self.limit, "RemoveContainer", self.runtime.remove_container(&id)).await;
            if let Err(error) = removed {
                tracing::debug!(container = %id, %error, "failed to remove a dead container");
            }
        }
        for id in prunable.sandboxes {
            let removed = with_timeout(
                self.limit,
                "RemovePodSandbox",
                self.runtime.remove_pod_sandbox(&id),
            )
            .await;
            if let Err(error) = removed {
                tracing::debug!(sandbox = %id, %error, "failed to remove a dead sandbox");
            }
        }
    }
}

fn find_prunable_containers(snapshot: &PodSnapshot) -> PrunableContainers {
    let mut prunable = PrunableContainers::default();
    let mut newest_names = BTreeSet::new();
    for instance in &snapshot.containers {
        let is_dead = matches!(instance.state, ContainerState::Exited(_));
        if is_dead && !newest_names.insert(&instance.name) {
            prunable.containers.push(instance.id.clone());
        }
    }
    for sandbox in snapshot
        .sandboxes
        .iter()
        .skip(1)
        .filter(|sandbox| sandbox.state == SandboxState::NotReady)
    {
        let mut containers_in_sandbox = snapshot
            .containers
            .iter()
            .filter(|instance| instance.sandbox == sandbox.id);
        if containers_in_sandbox.all(|instance| prunable.containers.contains(&instance.id)) {
            prunable.sandboxes.push(sandbox.id.clone());
        }
    }
    prunable
}
