//! Creates, lists, stops and removes sandboxes and containers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::{
    DockerRuntime,
    client::{CALL_TIMEOUT, CallError, START_TIMEOUT, query_string},
    container_config::EngineFlavor,
    container_labels::{self, ContainerKind, ContainerLabels},
    convert::full_id,
    pause,
    requests::{CreateContainerRequest, ResourceLimits},
    responses::{ContainerInspect, ContainerSummary, CreatedResponse, ProgressMessage},
};
use crate::runtime::{ContainerId, RuntimeError, labels};

/// Maximum number of concurrent calls.
const MAX_CONCURRENT: usize = 8;
/// Maximum number of attempts to get a container name: each time the current holder is renamed.
const ATTEMPTS: usize = 4;
/// Timeout of stopping a container, beyond its grace period.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Result of releasing a container name.
enum NameRelease {
    /// The name is free.
    Released,
    /// A container of another cluster has the name, and keeps it; the error to return if no other name is left.
    OtherCluster(RuntimeError),
}

// --- Create and start ---

impl DockerRuntime {
    /// Creates a container with the name of a current container. An owned container with that name is renamed.
    pub(super) async fn create(
        &self,
        labels: &ContainerLabels,
        body: &CreateContainerRequest,
    ) -> Result<String, RuntimeError> {
        let mut name = labels.live_name();
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let path = format!("/containers/create{}", query_string([("name", name.as_str())]));
            let error = match self
                .client
                .post::<CreatedResponse>(&path, body, START_TIMEOUT)
                .await
            {
                Ok(created) => {
                    self.cache.created(&created.id);
                    return Ok(created.id);
                }
                Err(error) => error,
            };
            if is_name_taken(&error, &name) {
                if let NameRelease::OtherCluster(name_taken) = self.release_name(&name, labels).await? {
                    let cluster_name = labels.name_of_cluster(&self.config_generator.owner);
                    if name == cluster_name {
                        return Err(name_taken);
                    }
                    name = cluster_name;
                }
            } else if body.image == pause::IMAGE && is_image_missing(&error) {
                self.load_pause_image().await?;
            } else {
                return Err(self.failed(error, "create container"));
            }
            last = Some(error);
        }
        let error = last.unwrap_or(CallError::Timeout(START_TIMEOUT));
        Err(self.failed(error, "create container"))
    }

    /// Starts a created container.
    pub(super) async fn start(&self, id: &str) -> Result<(), RuntimeError> {
        let started = self
            .client
            .post_empty(&format!("/containers/{id}/start"), START_TIMEOUT)
            .await;
        let Err(error) = started else {
            return Ok(());
        };
        let error = self.failed(error, "start container");
        // Podman reports a start failure if the process has exited before Podman looks.
        if self.config_generator.flavor == EngineFlavor::Podman
            && matches!(error, RuntimeError::OperationFailed(_))
        {
            let inspected = self.inspect(id).await?;
            if inspected.state.running
                || matches!(inspected.state.status.as_str(), "exited" | "stopped" | "stopping")
            {
                return Ok(());
            }
        }
        Err(error)
    }

    /// Releases a name: a container of the same attempt that never started is removed, others are renamed.
    async fn release_name(
        &self,
        name: &str,
        new_labels: &ContainerLabels,
    ) -> Result<NameRelease, RuntimeError> {
        let holder = match self.inspect(name).await {
            Ok(holder) => holder,
            // It was removed meanwhile.
            Err(RuntimeError::NotFound(_)) => return Ok(NameRelease::Released),
            Err(error) => return Err(error),
        };
        let labels = ContainerLabels::read(&holder.config.labels);
        let is_of_a_node = labels.is_some();
        let Some(labels) = labels.filter(|_| self.owns(&holder)) else {
            let name_taken = RuntimeError::NameTaken {
                name: name.to_owned(),
                holder: holder.id.clone(),
            };
            return if is_of_a_node {
                Ok(NameRelease::OtherCluster(name_taken))
            } else {
                Err(name_taken)
            };
        };
        let is_unused = matches!(
            holder.state.status.as_str(),
            "created" | "configured" | "initialized"
        );
        if is_unused && labels.pod.uid == new_labels.pod.uid && labels.attempt == new_labels.attempt {
            return self.remove(&holder.id).await.map(|()| NameRelease::Released);
        }
        let short = holder.id.get(..12).unwrap_or(&holder.id);
        let names = [labels.former_name(), format!("{}_{short}", labels.former_name())];
        let mut outcome = Ok(());
        for former in names {
            let path = format!(
                "/containers/{}/rename{}",
                holder.id,
                query_string([("name", former.as_str())])
            );
            outcome = self.client.post_empty(&path, CALL_TIMEOUT).await;
            match &outcome {
                Err(error) if is_name_taken(error, &former) => {}
                _ => break,
            }
        }
        match outcome {
            Err(error) if !error.is_not_found() => Err(self.failed(error, "rename container")),
            _ => Ok(NameRelease::Released),
        }
    }

    /// Loads the built-in pause image.
    async fn load_pause_image(&self) -> Result<(), RuntimeError> {
        let archive = pause::archive().ok_or_else(|| {
            RuntimeError::Unsupported(format!(
                "no pause image for CPU architecture {}",
                std::env::consts::ARCH
            ))
        })?;
        let answer = self
            .client
            .upload("/images/load?quiet=1", Bytes::from(archive), START_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "load the pause image"))?;
        let failed = answer
            .split(|byte| *byte == b'\n')
            .filter_map(|line| kubecontroller::decode::from_slice::<ProgressMessage>(line).ok())
            .find_map(|progress| progress.error);
        failed.map_or(Ok(()), |error| {
            Err(RuntimeError::OperationFailed(format!(
                "load the pause image: {error}"
            )))
        })
    }
}

// --- List and inspect ---

impl DockerRuntime {
    /// Returns the current state of all owned sandboxes or containers.
    pub(super) async fn inspect_all(
        &self,
        kind: ContainerKind,
    ) -> Result<Vec<Arc<ContainerInspect>>, RuntimeError> {
        let listed = self.list(Some(kind), None).await?;
        // Collected first: with a lazy closure, rustc cannot prove that the future is `Send` for all lifetimes.
        let inspections: Vec<_> = listed.iter().map(|entry| self.inspect_listed(entry)).collect();
        let inspected: Vec<_> = stream::iter(inspections)
            .buffered(MAX_CONCURRENT)
            .try_collect()
            .await?;
        self.cache.retain(|inspected| {
            let is_of_kind =
                ContainerLabels::read(&inspected.config.labels).is_some_and(|labels| labels.kind == kind);
            !is_of_kind || listed.iter().any(|entry| entry.id == inspected.id)
        });
        Ok(inspected
            .into_iter()
            .flatten()
            .filter(|inspected| self.owns(inspected))
            .collect())
    }

    /// Inspects an entry of the list; `None` if it was removed meanwhile.
    async fn inspect_listed(
        &self,
        entry: &ContainerSummary,
    ) -> Result<Option<Arc<ContainerInspect>>, RuntimeError> {
        if let Some(inspected) = self.cache.get_with_state(&entry.id, &entry.state) {
            return Ok(Some(inspected));
        }
        match self.inspect(&entry.id).await {
            Ok(inspected) => Ok(Some(inspected)),
            Err(RuntimeError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Inspects a container.
    pub(super) async fn inspect(&self, id: &str) -> Result<Arc<ContainerInspect>, RuntimeError> {
        let inspected = self
            .client
            .get::<ContainerInspect>(&format!("/containers/{id}/json"), CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "inspect container"))?;
        let inspected = Arc::new(inspected);
        if self.owns(&inspected) {
            self.cache.insert(&inspected);
        }
        Ok(inspected)
    }

    /// Returns a cached inspect response, possibly outdated: only for fields that never change.
    pub(super) async fn inspect_cached(&self, id: &str) -> Result<Arc<ContainerInspect>, RuntimeError> {
        match self.cache.get(id) {
            Some(inspected) => Ok(inspected),
            None => self.inspect(id).await,
        }
    }

    pub(super) fn owns(&self, inspected: &ContainerInspect) -> bool {
        container_labels::is_owned(&inspected.config.labels, &self.config_generator.owner)
    }

    async fn list(
        &self,
        kind: Option<ContainerKind>,
        sandbox: Option<&str>,
    ) -> Result<Vec<ContainerSummary>, RuntimeError> {
        let filters = container_labels::filter(&self.config_generator.owner, kind, sandbox);
        let path = format!(
            "/containers/json{}",
            query_string([("all", "1"), ("filters", filters.as_str())])
        );
        let listed: Vec<ContainerSummary> = self
            .client
            .get(&path, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        // The engine's filter ignores the cluster.
        Ok(listed
            .into_iter()
            .filter(|entry| container_labels::is_owned(&entry.labels, &self.config_generator.owner))
            .collect())
    }
}

// --- Containers of all owners ---

impl DockerRuntime {
    /// Counts sandboxes and containers of other clusters.
    pub(super) async fn count_other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        let filters = json!({ "label": [labels::NODE] }).to_string();
        let path = format!(
            "/containers/json{}",
            query_string([("all", "1"), ("filters", filters.as_str())])
        );
        let listed: Vec<ContainerSummary> = self
            .client
            .get(&path, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        let mut counts = BTreeMap::new();
        let owner = &self.config_generator.owner;
        for entry in listed {
            if let Some(cluster) = owner.other_cluster(|name| entry.labels.get(name)) {
                *counts.entry(cluster).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Returns the images of all containers of any owner.
    pub(super) async fn list_images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let path = format!("/containers/json{}", query_string([("all", "1")]));
        let listed: Vec<ContainerSummary> = self
            .client
            .get(&path, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "list containers"))?;
        let images = listed
            .into_iter()
            .flat_map(|entry| [full_id(&entry.image_id), entry.image]);
        Ok(images.filter(|image| !image.is_empty()).collect())
    }
}

// --- Stop, remove, update ---

impl DockerRuntime {
    /// Stops a container: stop signal, then SIGKILL after `grace`.
    pub(super) async fn stop(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        self.check_ownership(id).await?;
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        let path = format!(
            "/containers/{id}/stop{}",
            query_string([("t", seconds.to_string().as_str())])
        );
        let limit = Duration::from_secs(seconds).saturating_add(STOP_TIMEOUT);
        match self.client.post_empty(&path, limit).await {
            Err(error) if !error.is_not_found() => {
                // Some engines return an error for containers that never started.
                let is_running = self
                    .inspect(id)
                    .await
                    .is_ok_and(|inspected| inspected.state.running);
                if is_running {
                    return Err(self.failed(error, "stop container"));
                }
                Ok(())
            }
            _ => {
                // The list may report it as running a little longer; inspect does not.
                self.cache.invalidate(id);
                Ok(())
            }
        }
    }

    /// Removes a container and its anonymous volumes, even if it runs.
    pub(super) async fn remove(&self, id: &str) -> Result<(), RuntimeError> {
        self.check_ownership(id).await?;
        let path = format!("/containers/{id}{}", query_string([("v", "1"), ("force", "1")]));
        match self.client.delete(&path, CALL_TIMEOUT).await {
            Err(error) if !error.is_not_found() && !is_being_removed(&error) => {
                Err(self.failed(error, "remove container"))
            }
            _ => {
                self.cache.removed(id);
                Ok(())
            }
        }
    }

    /// Stops the containers of a sandbox, then the sandbox.
    pub(super) async fn stop_with_containers(&self, sandbox: &str) -> Result<(), RuntimeError> {
        let members = self.list(None, Some(sandbox)).await?;
        let running = members.iter().filter(|entry| entry.state == "running");
        let stops: Vec<_> = running
            .map(|entry| self.stop(&entry.id, Duration::ZERO))
            .collect();
        run_concurrently(stops).await?;
        self.stop(sandbox, Duration::ZERO).await
    }

    /// Removes the containers of a sandbox, then the sandbox: Podman does not remove a container on which others depend.
    pub(super) async fn remove_with_containers(&self, sandbox: &str) -> Result<(), RuntimeError> {
        let members = self.list(None, Some(sandbox)).await?;
        let removals: Vec<_> = members.iter().map(|entry| self.remove(&entry.id)).collect();
        run_concurrently(removals).await?;
        self.remove(sandbox).await
    }

    /// Updates the resource limits of a container.
    pub(super) async fn update_limits(
        &self,
        id: &ContainerId,
        limits: &ResourceLimits,
    ) -> Result<(), RuntimeError> {
        let (path, body) = match self.config_generator.flavor {
            EngineFlavor::Docker => (format!("/containers/{id}/update"), json!(limits)),
            // Podman's own API: the Docker-compatible endpoint is missing in older releases.
            EngineFlavor::Podman => (format!("/libpod/containers/{id}/update"), limits.as_oci()),
        };
        self.client
            .send(&path, &body, CALL_TIMEOUT)
            .await
            .map_err(|error| self.failed(error, "update container"))
    }

    /// Rejects calls for containers of other owners. Missing containers pass.
    async fn check_ownership(&self, id: &str) -> Result<(), RuntimeError> {
        if self.cache.is_owned(id) {
            return Ok(());
        }
        match self.inspect(id).await {
            Ok(inspected) if !self.owns(&inspected) => Err(RuntimeError::OperationFailed(format!(
                "container {id} does not belong to this node and cluster"
            ))),
            Ok(_) | Err(RuntimeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Runs calls concurrently, and returns the first error.
async fn run_concurrently(
    work: Vec<impl Future<Output = Result<(), RuntimeError>>>,
) -> Result<(), RuntimeError> {
    stream::iter(work)
        .buffer_unordered(MAX_CONCURRENT)
        .try_collect()
        .await
}

pub(super) fn is_name_taken(error: &CallError, name: &str) -> bool {
    matches!(error, CallError::Status { message, .. } if message.contains("already in use") && message.contains(name))
}

fn is_image_missing(error: &CallError) -> bool {
    let CallError::Status { message, .. } = error else {
        return false;
    };
    error.is_not_found() || message.to_ascii_lowercase().contains("no such image")
}

pub(super) fn is_being_removed(error: &CallError) -> bool {
    matches!(error, CallError::Status { message, .. } if message.contains("already in progress"))
}
