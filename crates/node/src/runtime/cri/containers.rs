//! Containers, and their logs.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, TryStreamExt, stream, stream::BoxStream};

use crate::runtime::{
    Container, ContainerId, ContainerSpec, LogLine, LogOptions, MountSource, Resources, RuntimeError,
    SandboxId, SandboxSpec,
};

use super::{
    Cri, container_config,
    failure::Failure,
    gone, logs,
    messages::{self, method},
    sandbox_config,
    sandboxes::{cannot_remove, make_folder},
    state,
};

/// How many statuses are asked for at once.
const AT_ONCE: usize = 8;

impl Cri {
    pub(super) async fn make_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        let has_image = |mount: &crate::runtime::Mount| matches!(mount.source, MountSource::Image { .. });
        if spec.mounts.iter().any(has_image) {
            self.must_mount_images().await?;
        }
        make_folder(&pod.log_directory.join(&spec.name)).await?;
        let request = messages::CreateContainerRequest {
            pod_sandbox_id: sandbox.0.clone(),
            config: Some(container_config::config(pod, spec, &self.owner, self.cgroups)),
            sandbox_config: Some(sandbox_config::config(pod, &self.owner)),
        };
        let limit = self.limits.start;
        let made: Result<messages::ContainerIdMessage, _> = self
            .connection
            .call(method::CREATE_CONTAINER, request, limit)
            .await;
        made.map(|made| ContainerId(made.container_id))
            .map_err(|failure| {
                self.explain(
                    failure,
                    &format!("container {} of pod {}", spec.name, pod.pod),
                    limit,
                )
            })
    }

    /// Older runtimes would mount an empty path instead.
    async fn must_mount_images(&self) -> Result<(), RuntimeError> {
        let version = self.tell_version().await?;
        let first = match version.name.as_str() {
            "containerd" => (2, 1),
            "cri-o" => (1, 31),
            _ => return Ok(()),
        };
        if numbers(&version.version).is_some_and(|numbers| numbers < first) {
            return Err(RuntimeError::Unsupported(format!(
                "{} {} cannot mount images as volumes; {}.{} can",
                version.name, version.version, first.0, first.1
            )));
        }
        Ok(())
    }

    pub(super) async fn begin_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let limit = self.limits.start;
        let done: Result<messages::Nothing, _> = self
            .connection
            .call(method::START_CONTAINER, named(id), limit)
            .await;
        done.map(|_| ())
            .map_err(|failure| self.explain(failure, &format!("start of container {id}"), limit))
    }

    pub(super) async fn end_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        if self.own_status(id).await?.is_none() {
            return Ok(());
        }
        let request = messages::StopContainerRequest {
            container_id: id.0.clone(),
            timeout: seconds(grace),
        };
        let limit = self.limits.stop.saturating_add(grace);
        let done: Result<messages::Nothing, _> =
            self.connection.call(method::STOP_CONTAINER, request, limit).await;
        gone(done)
            .map(|_| ())
            .map_err(|failure| self.explain(failure, &format!("end of container {id}"), limit))
    }

    pub(super) async fn delete_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let Some(status) = self.own_status(id).await? else {
            return Ok(());
        };
        let limit = self.limits.stop;
        let done: Result<messages::Nothing, _> = self
            .connection
            .call(method::REMOVE_CONTAINER, named(id), limit)
            .await;
        gone(done).map_err(|failure| self.explain(failure, &format!("removal of container {id}"), limit))?;
        self.known.forget(&id.0);
        match log_path(&status) {
            Some(log) => logs::remove(&log).map_err(|error| cannot_remove(&log, &error)),
            None => Ok(()),
        }
    }

    pub(super) async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let listed = self.listed_containers("", "").await?;
        let there: HashSet<String> = listed.iter().map(|container| container.id.clone()).collect();
        self.known.only_containers(&there);
        stream::iter(listed)
            .map(async |mut listed| {
                let status = match self.known.container(&listed.id, listed.state) {
                    Some(status) => status,
                    None => match self.status_of(&listed.id).await? {
                        Some(status) => status,
                        // Removed since it was listed.
                        None => return Ok(None),
                    },
                };
                listed.state = status.state;
                Ok(Some(state::container(listed, &status)))
            })
            .buffered(AT_ONCE)
            .try_filter_map(async |container| Ok(container))
            .try_collect()
            .await
    }

    pub(super) async fn change_resources(
        &self,
        id: &ContainerId,
        resources: &Resources,
    ) -> Result<(), RuntimeError> {
        let request = messages::UpdateContainerResourcesRequest {
            container_id: id.0.clone(),
            linux: Some(container_config::resources(resources, self.cgroups)),
        };
        let _: messages::Nothing = self
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
        let status = self.status_of(&id.0).await?;
        let missing = || RuntimeError::NotFound(format!("no container {id}"));
        let log = log_path(&status.ok_or_else(missing)?)
            .ok_or_else(|| RuntimeError::Unsupported(format!("container {id} writes no log")))?;
        let connection = self.connection.clone();
        let limit = self.limits.query;
        let id = id.clone();
        let alive: logs::Alive = Box::new(move || {
            let connection = connection.clone();
            let id = id.clone();
            async move {
                let status: Result<messages::ContainerStatusResponse, _> = connection
                    .call(method::CONTAINER_STATUS, status_request(&id.0, false), limit)
                    .await;
                match status {
                    Ok(answer) => answer.status.is_some_and(|status| may_write(&status)),
                    // A runtime that restarts has not ended its containers.
                    Err(failure) => !failure.is_not_found(),
                }
            }
            .boxed()
        });
        logs::read(log, options.clone(), alive).await
    }

    pub(super) async fn rotate(&self, most: u64, keep: usize) -> Result<(), RuntimeError> {
        let mut first_error = Ok(());
        for container in self.listed_containers("", "").await? {
            // What has ended writes no more, and its runtime would refuse.
            if container.state != i32::from(messages::ContainerState::Running) {
                continue;
            }
            let Some(log) = self.log_of(&container).await? else {
                continue;
            };
            if logs::overgrown(&log, most)
                && let Err(error) = self.rotate_one(&container.id, &log, keep).await
            {
                tracing::warn!(container = container.id, %error, "cannot rotate a log");
                first_error = first_error.and(Err(error));
            }
        }
        first_error
    }

    async fn rotate_one(&self, id: &str, log: &Path, keep: usize) -> Result<(), RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::Refused(format!("cannot rotate the log {}: {error}", log.display()))
        };
        let aside = logs::set_aside(log).map_err(failed)?;
        let request = messages::ContainerIdMessage {
            container_id: id.to_owned(),
        };
        let limit = self.limits.query;
        let done: Result<messages::Nothing, Failure> = self
            .connection
            .call(method::REOPEN_CONTAINER_LOG, request, limit)
            .await;
        if let Err(failure) = done {
            // Unless the runtime began a new one in spite of what it said.
            if !log.exists() {
                logs::put_back(log, &aside).map_err(failed)?;
            }
            return Err(self.explain(failure, &format!("a new log of container {id}"), limit));
        }
        logs::prune(log, keep).map_err(failed)
    }

    /// Where a container of a list writes its log.
    pub(super) async fn log_of(
        &self,
        container: &messages::Container,
    ) -> Result<Option<PathBuf>, RuntimeError> {
        let status = match self.known.container(&container.id, container.state) {
            Some(status) => Some(status),
            None => self.status_of(&container.id).await?,
        };
        Ok(status.as_ref().and_then(log_path))
    }

    /// What the runtime tells of a container that must be ours, if it is there.
    async fn own_status(&self, id: &ContainerId) -> Result<Option<messages::ContainerStatus>, RuntimeError> {
        let status = self.status_of(&id.0).await?;
        if let Some(status) = &status {
            self.must_be_ours("container", &id.0, &status.labels)?;
        }
        Ok(status)
    }

    /// What the runtime tells of one container, if it is there.
    async fn status_of(&self, id: &str) -> Result<Option<messages::ContainerStatus>, RuntimeError> {
        let answer = self.full_status(id, false).await?;
        let Some(status) = answer.and_then(|answer| answer.status) else {
            return Ok(None);
        };
        self.known.keep_container(id, &status);
        Ok(Some(status))
    }

    /// The same with what only this runtime tells.
    pub(super) async fn full_status(
        &self,
        id: &str,
        verbose: bool,
    ) -> Result<Option<messages::ContainerStatusResponse>, RuntimeError> {
        let limit = self.limits.query;
        let request = status_request(id, verbose);
        match self
            .connection
            .call(method::CONTAINER_STATUS, request, limit)
            .await
        {
            Ok(answer) => Ok(Some(answer)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(self.explain(failure, &format!("status of container {id}"), limit)),
        }
    }

    /// Ours: all, the one with this id, or those in a sandbox.
    pub(super) async fn listed_containers(
        &self,
        id: &str,
        sandbox: &str,
    ) -> Result<Vec<messages::Container>, RuntimeError> {
        let request = messages::ListContainersRequest {
            filter: Some(messages::ContainerFilter {
                id: id.to_owned(),
                pod_sandbox_id: sandbox.to_owned(),
                label_selector: self.ours(),
            }),
        };
        let listed: messages::ListContainersResponse = self
            .query(method::LIST_CONTAINERS, request, "the list of containers")
            .await?;
        let mut containers = listed.containers;
        containers.retain(|container| self.owner.owns(|name| container.labels.get(name)));
        Ok(containers)
    }

    /// How many sandboxes and containers there are of other clusters.
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
        for told in all {
            if let Some(cluster) = self.owner.other_cluster(|name| told.get(name)) {
                *counts.entry(cluster).or_default() += 1;
            }
        }
        Ok(counts)
    }

    /// The images of all containers, whosever they are.
    pub(super) async fn list_images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let containers = self.all_containers().await?;
        let images = containers.into_iter().flat_map(|container| {
            let named = container.image.map(|image| image.image).unwrap_or_default();
            [container.image_id, container.image_ref, named]
        });
        Ok(images.filter(|image| !image.is_empty()).collect())
    }

    /// All containers, whosever they are.
    async fn all_containers(&self) -> Result<Vec<messages::Container>, RuntimeError> {
        let request = messages::ListContainersRequest { filter: None };
        let listed: messages::ListContainersResponse = self
            .query(method::LIST_CONTAINERS, request, "the list of containers")
            .await?;
        Ok(listed.containers)
    }
}

fn named(id: &ContainerId) -> messages::ContainerIdMessage {
    messages::ContainerIdMessage {
        container_id: id.0.clone(),
    }
}

fn status_request(id: &str, verbose: bool) -> messages::ContainerStatusRequest {
    messages::ContainerStatusRequest {
        container_id: id.to_owned(),
        verbose,
    }
}

/// Whether a container is before its end.
fn may_write(status: &messages::ContainerStatus) -> bool {
    matches!(
        messages::ContainerState::try_from(status.state),
        Ok(messages::ContainerState::Created | messages::ContainerState::Running)
    )
}

fn log_path(status: &messages::ContainerStatus) -> Option<PathBuf> {
    (!status.log_path.is_empty()).then(|| PathBuf::from(&status.log_path))
}

/// Whole seconds, at least as long: a second too much is better than none.
pub(super) fn seconds(time: Duration) -> i64 {
    let more = i64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs())
        .unwrap_or(i64::MAX)
        .saturating_add(more)
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("1.6.20~ds1"), Some((1, 6)));
        assert_eq!(numbers("v2.1.0"), Some((2, 1)));
        assert_eq!(numbers("1.34.0"), Some((1, 34)));
        assert_eq!(numbers("unknown"), None);
    }

    #[test]
    fn times_are_rounded_up() {
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(30)), 30);
        assert_eq!(seconds(Duration::ZERO), 0);
    }
}
