//! Creates and starts sandboxes and containers, with upstream's steps and messages.
// upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer

use std::{net::IpAddr, path::Path};

use k8s_openapi::{
    api::core::v1::{Container, ImageVolumeSource, Pod, Volume},
    jiff::Timestamp,
};
use kubecontroller::events::EventType;

use super::{
    actions::KillReason,
    create_container_error::CreateContainerError,
    events::container_reference,
    hooks::{self, HookContext},
    hosts,
    runtime_manager::RuntimeManager,
    spec::{self, ContainerConfigInput, ContainerType},
    status::{PodSnapshot, WaitingReason},
    stop::ContainerStopper,
    termination_message,
};
use crate::{
    NodeFacts, environment,
    images::{self, keyring::DockerKeyring, with_timeout},
    runtime::{ContainerId, ContainerState, Image, Mount, Runtime, SandboxId, SandboxSpec},
};

/// Starts containers of one pod.
pub(super) struct ContainerStarter<'a> {
    pub manager: &'a RuntimeManager,
    pub runtime: &'a dyn Runtime,
    /// The pod with its allocated resources.
    pub pod: &'a Pod,
    pub snapshot: &'a PodSnapshot,
    pub facts: &'a NodeFacts,
    /// Image pull secrets.
    pub keyring: &'a DockerKeyring,
    /// Data directory of the pod.
    pub directory: &'a Path,
    pub sandbox: &'a SandboxId,
    pub sandbox_spec: &'a SandboxSpec,
    pub addresses: &'a [IpAddr],
}

/// Why a container was not started.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StartError {
    /// Waiting state for the container status.
    pub waiting: WaitingReason,
    /// When to retry, if known.
    pub retry_at: Option<Timestamp>,
}

// --- ContainerStarter ---

impl ContainerStarter<'_> {
    /// Pulls the image, creates and starts a container, and runs its `postStart` hook.
    pub(super) async fn start(&self, container: &Container, kind: ContainerType) -> Result<(), StartError> {
        let regarding = container_reference(self.pod, &container.name);
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let request = images::EnsureImageRequest {
            uid,
            regarding: &regarding,
            image: container.image.as_deref().unwrap_or_default(),
            policy: container.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
            keyring: self.keyring,
        };
        for volume in self.image_volumes(container) {
            let request = images::EnsureImageRequest {
                image: volume.reference.as_deref().unwrap_or_default(),
                policy: volume.pull_policy.as_deref().unwrap_or("IfNotPresent"),
                ..request
            };
            self.ensure_image(container, &request).await?;
        }
        let image = self.ensure_image(container, &request).await?;
        let attempt = self.next_attempt(&container.name).await?;
        let started = self.create_and_start(container, kind, attempt, &image);
        let id = self.manager.container_limiter.run(started).await?;
        self.post_start(container, &id, attempt).await
    }

    /// Creates and starts a container whose image is present.
    async fn create_and_start(
        &self,
        container: &Container,
        kind: ContainerType,
        attempt: u32,
        image: &Image,
    ) -> Result<ContainerId, StartError> {
        let created_id = self.create_container(container, kind, attempt, image).await;
        let id = created_id
            .map_err(|error| self.start_failed(container, None, error.reason(), error.to_string()))?;
        self.record_normal(container, &id, "Created", "Container created");
        let starting = self.runtime.start_container(&id);
        if let Err(error) = with_timeout(self.manager.settings.start_limit, "StartContainer", starting).await
        {
            return Err(self.start_failed(container, Some(&id), "RunContainerError", error.to_string()));
        }
        self.record_normal(container, &id, "Started", "Container started");
        Ok(id)
    }

    /// Pulls an image if needed.
    async fn ensure_image(
        &self,
        container: &Container,
        request: &images::EnsureImageRequest<'_>,
    ) -> Result<Image, StartError> {
        let ensured = self
            .manager
            .images
            .ensure_image_exists(self.runtime, request)
            .await;
        ensured.map_err(|error| {
            self.record_warning(container, None, "Failed", &format!("Error: {}", error.reason));
            StartError {
                waiting: waiting(error.reason, error.message),
                retry_at: error.retry_at,
            }
        })
    }

    /// Image volumes that a container mounts (KEP-4639).
    fn image_volumes(&self, container: &Container) -> Vec<&ImageVolumeSource> {
        let spec = self.pod.spec.as_ref();
        let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        let is_mounted = |volume: &&Volume| {
            let mut mounts = container.volume_mounts.iter().flatten();
            mounts.any(|mount| mount.name == volume.name)
        };
        volumes
            .iter()
            .filter(is_mounted)
            .filter_map(|volume| volume.image.as_ref())
            .collect()
    }

    /// The restart count of a new instance. Removes instances that were created but never started: they do not count.
    async fn next_attempt(&self, name: &str) -> Result<u32, StartError> {
        let mut highest = None;
        let instances: Vec<_> = self.snapshot.all(name).collect();
        for instance in instances {
            if instance.state == ContainerState::Created {
                let removal = self.runtime.remove_container(&instance.id);
                let removed =
                    with_timeout(self.manager.settings.stop_limit, "RemoveContainer", removal).await;
                removed.map_err(|error| StartError {
                    waiting: waiting("CreateContainerError", error.to_string()),
                    retry_at: None,
                })?;
            } else {
                highest = highest.max(Some(instance.attempt));
            }
        }
        Ok(highest.map_or_else(|| self.attempt_from_api_status(name), |highest| highest + 1))
    }

    /// The restart count from the API status, for containers that the runtime has removed.
    fn attempt_from_api_status(&self, name: &str) -> u32 {
        let Some(status) = &self.pod.status else {
            return 0;
        };
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let api_status = lists
            .into_iter()
            .flatten()
            .flatten()
            .find(|status| status.name == name);
        let had_container = |status: &&k8s_openapi::api::core::v1::ContainerStatus| {
            status.container_id.as_ref().is_some_and(|id| !id.is_empty())
        };
        let count = api_status
            .filter(had_container)
            .map(|status| status.restart_count + 1);
        count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    async fn create_container(
        &self,
        container: &Container,
        kind: ContainerType,
        attempt: u32,
        image: &Image,
    ) -> Result<ContainerId, CreateContainerError> {
        let environment = environment::make_environment_variables(
            self.pod,
            container,
            &*self.manager.sources,
            self.facts,
            self.addresses,
            &self.manager.volumes,
        )
        .await?;
        let volumes = &*self.manager.volumes;
        let mut mounts = volumes.make_mounts(self.pod, container, &environment).await?;
        mounts.extend(self.kubelet_mounts(container, attempt, &mounts).await?);
        let target = self.target_container(container, kind);
        let spec = spec::generate_container_config(&ContainerConfigInput {
            pod: self.pod,
            container,
            kind,
            attempt,
            image,
            environment: &environment,
            mounts: &mounts,
            target: target.as_ref(),
            facts: self.facts,
        })?;
        let creation = self
            .runtime
            .create_container(self.sandbox, self.sandbox_spec, &spec);
        with_timeout(self.manager.settings.start_limit, "CreateContainer", creation)
            .await
            .map_err(CreateContainerError::Runtime)
    }

    /// Mounts that the kubelet adds: the hosts file and the termination message file.
    async fn kubelet_mounts(
        &self,
        container: &Container,
        attempt: u32,
        mounts: &[Mount],
    ) -> Result<Vec<Mount>, CreateContainerError> {
        let hosts =
            hosts::make_hosts_mount(self.pod, self.directory, self.facts, self.addresses, mounts).await?;
        let message = termination_message::make_message_mount(self.directory, container, attempt)
            .await
            .map_err(CreateContainerError::TerminationMessage)?;
        Ok(hosts.into_iter().chain(message).collect())
    }

    /// The container whose process namespace an ephemeral container joins.
    fn target_container(&self, container: &Container, kind: ContainerType) -> Option<ContainerId> {
        if kind != ContainerType::Ephemeral {
            return None;
        }
        let all = self.pod.spec.as_ref()?.ephemeral_containers.as_ref()?;
        let ephemeral = all.iter().find(|one| one.name == container.name)?;
        let target = ephemeral.target_container_name.as_ref()?;
        self.snapshot.newest(target).map(|instance| instance.id.clone())
    }

    async fn post_start(
        &self,
        container: &Container,
        id: &ContainerId,
        attempt: u32,
    ) -> Result<(), StartError> {
        let Some(hook) = container
            .lifecycle
            .as_ref()
            .and_then(|hooks| hooks.post_start.as_ref())
        else {
            return Ok(());
        };
        let context = HookContext {
            runtime: self.runtime,
            pod: self.pod,
            container,
            id,
            addresses: self.addresses,
        };
        let Err(error) = hooks::run_hook(&context, hook, self.manager.settings.hook_limit).await else {
            return Ok(());
        };
        self.record_warning(container, Some(id), "FailedPostStartHook", "PostStartHook failed");
        let stopper = ContainerStopper {
            runtime: self.runtime,
            pod: Some(self.pod),
            addresses: self.addresses,
            events: &self.manager.events,
            limit: self.manager.settings.stop_limit,
        };
        let instance = crate::runtime::Container {
            id: id.clone(),
            sandbox: self.sandbox.clone(),
            pod: crate::PodIdentity::of(self.pod),
            name: container.name.clone(),
            attempt,
            image: String::new(),
            image_id: String::new(),
            created: self.manager.clock.now(),
            state: ContainerState::Unknown,
            annotations: std::collections::BTreeMap::default(),
            labels: std::collections::BTreeMap::default(),
        };
        if let Err(error) = stopper
            .stop_container(&instance, Some("FailedPostStartHook"), KillReason::Other, None)
            .await
        {
            tracing::warn!(pod = %instance.pod, container = container.name, %error, "failed to stop a container after its postStart hook failed");
        }
        Err(StartError {
            waiting: waiting("PostStartHookError", error.to_string()),
            retry_at: None,
        })
    }

    fn start_failed(
        &self,
        container: &Container,
        id: Option<&ContainerId>,
        reason: &str,
        message: String,
    ) -> StartError {
        self.record_warning(container, id, "Failed", &format!("Error: {message}"));
        StartError {
            waiting: waiting(reason, message),
            retry_at: None,
        }
    }

    fn record_normal(&self, container: &Container, id: &ContainerId, reason: &str, message: &str) {
        self.manager.events.record_container_event(
            self.pod,
            container,
            Some(id),
            EventType::Normal,
            reason,
            message,
        );
    }

    fn record_warning(&self, container: &Container, id: Option<&ContainerId>, reason: &str, message: &str) {
        self.manager.events.record_container_event(
            self.pod,
            container,
            id,
            EventType::Warning,
            reason,
            message,
        );
    }
}

pub(super) fn waiting(reason: &str, message: String) -> WaitingReason {
    WaitingReason {
        reason: reason.to_owned(),
        message,
    }
}
