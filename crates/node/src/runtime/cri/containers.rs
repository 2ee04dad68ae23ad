//! Container and log calls.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream, stream::BoxStream};

use crate::{
    blocking::run_blocking,
    runtime::{
        Container, ContainerId, ContainerResources, ContainerSpec, LogLine, LogOptions, MountSource,
        RuntimeError, SandboxId, SandboxSpec,
    },
};

use super::{
    CriRuntime, container_config, convert,
    error::CriError,
    ignore_not_found, logs,
    messages::{self, method},
    sandbox_config,
    sandboxes::{create_directory, remove_log},
};

/// Maximum number of concurrent status calls.
const MAX_CONCURRENT: usize = 8;

impl CriRuntime {
    pub(super) async fn create_container_in_sandbox(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        let is_image_volume =
            |mount: &crate::runtime::Mount| matches!(mount.source, MountSource::Image { .. });
        if spec.mounts.iter().any(is_image_volume) {
            self.check_image_mounts().await?;
        }
        create_directory(&pod.log_directory.join(&spec.name)).await?;
        let request = messages::CreateContainerRequest {
            pod_sandbox_id: sandbox.0.clone(),
            config: Some(container_config::config(pod, spec, &self.owner, self.cgroups)),
            sandbox_config: Some(sandbox_config::config(pod, &self.owner)),
        };
        let limit = self.timeouts.start;
        let created: Result<messages::ContainerIdMessage, _> = self
            .connection
            .call(method::CREATE_CONTAINER, request, limit)
            .await;
        created
            .map(|created| ContainerId(created.container_id))
            .map_err(|error| {
                self.runtime_error(
                    error,
                    &format!("container {} of pod {}", spec.name, pod.pod),
                    limit,
                )
            })
    }

    /// Rejects image volumes for runtimes that would mount an empty path instead.
    async fn check_image_mounts(&self) -> Result<(), RuntimeError> {
        let version = self.query_version().await?;
        let first = match version.name.as_str() {
            "containerd" => (2, 1),
            "cri-o" => (1, 31),
            _ => return Ok(()),
        };
        if major_minor(&version.version).is_some_and(|major_minor| major_minor < first) {
            return Err(RuntimeError::Unsupported(format!(
                "{} {} cannot mount images as volumes; {}.{} can",
                version.name, version.version, first.0, first.1
            )));
        }
        Ok(())
    }

    pub(super) async fn start_created_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let limit = self.timeouts.start;
        let result: Result<messages::Empty, _> = self
            .connection
            .call(method::START_CONTAINER, named(id), limit)
            .await;
        result
            .map(|_| ())
            .map_err(|error| self.runtime_error(error, &format!("start of container {id}"), limit))
    }

    pub(super) async fn stop_own_container(
        &self,
        id: &ContainerId,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        if self.own_container_status(id).await?.is_none() {
            return Ok(());
        }
        let request = messages::StopContainerRequest {
            container_id: id.0.clone(),
            timeout: seconds(grace),
        };
        let limit = self.timeouts.stop.saturating_add(grace);
        let result: Result<messages::Empty, _> =
            self.connection.call(method::STOP_CONTAINER, request, limit).await;
        ignore_not_found(result)
            .map(|_| ())
            .map_err(|error| self.runtime_error(error, &format!("stop of container {id}"), limit))
    }

    pub(super) async fn remove_own_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let Some(status) = self.own_container_status(id).await? else {
            return Ok(());
        };
        let limit = self.timeouts.stop;
        let result: Result<messages::Empty, _> = self
            .connection
            .call(method::REMOVE_CONTAINER, named(id), limit)
            .await;
        ignore_not_found(result)
            .map_err(|error| self.runtime_error(error, &format!("removal of container {id}"), limit))?;
        self.status_cache.remove(&id.0);
        match log_path(&status) {
            Some(log) => remove_log(log).await,
            None => Ok(()),
        }
    }

    pub(super) async fn query_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let listed = self.list_own_containers("", "").await?;
        let listed_ids: HashSet<String> = listed.iter().map(|container| container.id.clone()).collect();
        self.status_cache.retain_containers(&listed_ids);
        stream::iter(listed)
            .map(async |mut listed| {
                let status = match self.status_cache.container(&listed.id, listed.state) {
                    Some(status) => status,
                    None => match self.container_status(&listed.id).await? {
                        Some(status) => status,
                        // It was removed since the list.
                        None => return Ok(None),
                    },
                };
                listed.state = status.state;
                Ok(Some(convert::container(listed, &status)))
            })
            .buffered(MAX_CONCURRENT)
            .try_filter_map(async |container| Ok(container))
            .try_collect()
            .await
    }

    pub(super) async fn update_resources(
        &self,
        id: &ContainerId,
        resources: &ContainerResources,
    ) -> Result<(), RuntimeError> {
        let request = messages::UpdateContainerResourcesRequest {
            container_id: id.0.clone(),
            linux: Some(container_config::resources(resources, self.cgroups)),
        };
        let _: messages::Empty = self
            .query(
                method::UPDATE_CONTAINER_RESOURCES,
                request,
                &format!("resources of container {id}"),
            )
            .await?;
        Ok(())
    }

    pub(super) async fn read_log(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        let status = self.container_status(&id.0).await?;
        let missing = || RuntimeError::NotFound(format!("container {id} not found"));
        let log = log_path(&status.ok_or_else(missing)?)
            .ok_or_else(|| RuntimeError::Unsupported(format!("container {id} has no log")))?;
        let connection = self.connection.clone();
        let limit = self.timeouts.query;
        let id = id.clone();
        let is_alive: logs::ContainerAliveCheck = Box::new(move || {
            let connection = connection.clone();
            let id = id.clone();
            async move {
                let status: Result<messages::ContainerStatusResponse, _> = connection
                    .call(
                        method::CONTAINER_STATUS,
                        status_request(&id.0, StatusDetail::Basic),
                        limit,
                    )
                    .await;
                match status {
                    Ok(answer) => answer.status.is_some_and(|status| may_write(&status)),
                    // An unreachable runtime may be restarting; containers survive that.
                    Err(error) => !error.is_not_found(),
                }
            }
            .boxed()
        });
        logs::read(log, options.clone(), is_alive).await
    }

    pub(super) async fn rotate(&self, max: u64, keep: usize) -> Result<(), RuntimeError> {
        let mut first_error = Ok(());
        for container in self.list_own_containers("", "").await? {
            // Exited containers write nothing, and the runtime cannot reopen their log.
            if container.state != i32::from(messages::ContainerState::Running) {
                continue;
            }
            let Some(log) = self.log_of(&container).await? else {
                continue;
            };
            let path = log.clone();
            if run_blocking(move || logs::exceeds_size(&path, max)).await
                && let Err(error) = self.rotate_one(&container.id, &log, keep).await
            {
                tracing::warn!(container = container.id, %error, "failed to rotate a log");
                first_error = first_error.and(Err(error));
            }
        }
        first_error
    }

    async fn rotate_one(&self, id: &str, log: &Path, keep: usize) -> Result<(), RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::OperationFailed(format!("cannot rotate the log {}: {error}", log.display()))
        };
        let path = log.to_owned();
        let rotated = run_blocking(move || logs::rotate_file(&path))
            .await
            .map_err(failed)?;
        let request = messages::ContainerIdMessage {
            container_id: id.to_owned(),
        };
        let limit = self.timeouts.query;
        let result: Result<messages::Empty, CriError> = self
            .connection
            .call(method::REOPEN_CONTAINER_LOG, request, limit)
            .await;
        if let Err(error) = result {
            let path = log.to_owned();
            let undone = run_blocking(move || logs::undo_rotation(&path, &rotated)).await;
            undone.map_err(failed)?;
            return Err(self.runtime_error(error, &format!("reopening of the log of container {id}"), limit));
        }
        let path = log.to_owned();
        run_blocking(move || logs::prune(&path, keep))
            .await
            .map_err(failed)
    }

    /// Returns the log path of a listed container.
    pub(super) async fn log_of(
        &self,
        container: &messages::Container,
    ) -> Result<Option<PathBuf>, RuntimeError> {
        let status = match self.status_cache.container(&container.id, container.state) {
            Some(status) => Some(status),
            None => self.container_status(&container.id).await?,
        };
        Ok(status.as_ref().and_then(log_path))
    }

    /// Returns the status of an owned container, if it exists.
    async fn own_container_status(
        &self,
        id: &ContainerId,
    ) -> Result<Option<messages::ContainerStatus>, RuntimeError> {
        let status = self.container_status(&id.0).await?;
        if let Some(status) = &status {
            self.check_ownership("container", &id.0, &status.labels)?;
        }
        Ok(status)
    }

    /// Returns the status of a container, if it exists, and caches it.
    async fn container_status(&self, id: &str) -> Result<Option<messages::ContainerStatus>, RuntimeError> {
        let answer = self.container_status_response(id, StatusDetail::Basic).await?;
        let Some(status) = answer.and_then(|answer| answer.status) else {
            return Ok(None);
        };
        self.status_cache.insert_container(id, &status);
        Ok(Some(status))
    }

    /// Returns the status response of a container.
    pub(super) async fn container_status_response(
        &self,
        id: &str,
        detail: StatusDetail,
    ) -> Result<Option<messages::ContainerStatusResponse>, RuntimeError> {
        let limit = self.timeouts.query;
        let request = status_request(id, detail);
        match self
            .connection
            .call(method::CONTAINER_STATUS, request, limit)
            .await
        {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.runtime_error(error, &format!("status of container {id}"), limit)),
        }
    }

    /// Lists owned containers: all, the one with this ID, or those of a sandbox.
    pub(super) async fn list_own_containers(
        &self,
        id: &str,
        sandbox: &str,
    ) -> Result<Vec<messages::Container>, RuntimeError> {
        let request = messages::ListContainersRequest {
            filter: Some(messages::ContainerFilter {
                id: id.to_owned(),
                pod_sandbox_id: sandbox.to_owned(),
                label_selector: self.node_selector(),
            }),
        };
        let listed: messages::ListContainersResponse = self
            .query(method::LIST_CONTAINERS, request, "the list of containers")
            .await?;
        let mut containers = listed.containers;
        containers.retain(|container| self.owner.owns(|name| container.labels.get(name)));
        Ok(containers)
    }

    /// Counts sandboxes and containers of other clusters.
    pub(super) async fn count_other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        let containers = self.all_containers().await?;
        let sandboxes: messages::ListPodSandboxResponse = self
            .query(
                method::LIST_POD_SANDBOX,
                messages::ListPodSandboxRequest { filter: None },
                "the list of sandboxes",
            )
            .await?;
        let all = containers.iter().map(|container| &container.labels);
        let all = all.chain(sandboxes.items.iter().map(|sandbox| &sandbox.labels));
        let mut counts = BTreeMap::new();
        for labels in all {
            if let Some(cluster) = self.owner.other_cluster(|name| labels.get(name)) {
                *counts.entry(cluster).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// Returns the images of all containers of any owner.
    pub(super) async fn list_images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let containers = self.all_containers().await?;
        let images = containers.into_iter().flat_map(|container| {
            let named = container.image.map(|image| image.image).unwrap_or_default();
            [container.image_id, container.image_ref, named]
        });
        Ok(images.filter(|image| !image.is_empty()).collect())
    }

    /// Lists all containers of any owner.
    async fn all_containers(&self) -> Result<Vec<messages::Container>, RuntimeError> {
        let request = messages::ListContainersRequest { filter: None };
        let listed: messages::ListContainersResponse = self
            .query(method::LIST_CONTAINERS, request, "the list of containers")
            .await?;
        Ok(listed.containers)
    }
}

/// How much a status contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusDetail {
    Basic,
    /// With info that is specific to the runtime.
    Verbose,
}

fn named(id: &ContainerId) -> messages::ContainerIdMessage {
    messages::ContainerIdMessage {
        container_id: id.0.clone(),
    }
}

fn status_request(id: &str, detail: StatusDetail) -> messages::ContainerStatusRequest {
    messages::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose: detail == StatusDetail::Verbose,
    }
}

/// Returns whether the container has not exited.
fn may_write(status: &messages::ContainerStatus) -> bool {
    matches!(
        messages::ContainerState::try_from(status.state),
        Ok(messages::ContainerState::Created | messages::ContainerState::Running)
    )
}

fn log_path(status: &messages::ContainerStatus) -> Option<PathBuf> {
    (!status.log_path.is_empty()).then(|| PathBuf::from(&status.log_path))
}

/// Rounds up to seconds, so that a short grace period is not zero.
pub(super) fn seconds(time: Duration) -> i64 {
    let more = i64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs())
        .unwrap_or(i64::MAX)
        .saturating_add(more)
}

/// Parses major and minor version.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut major_minor = version.trim_start_matches('v').split('.');
    Some((
        major_minor.next()?.parse().ok()?,
        major_minor.next()?.parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_major_and_minor_version() {
        assert_eq!(major_minor("1.6.20~ds1"), Some((1, 6)));
        assert_eq!(major_minor("v2.1.0"), Some((2, 1)));
        assert_eq!(major_minor("1.34.0"), Some((1, 34)));
        assert_eq!(major_minor("unknown"), None);
    }

    #[test]
    fn rounds_up_to_seconds() {
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(30)), 30);
        assert_eq!(seconds(Duration::ZERO), 0);
    }
}
