//! Makes sandboxes and containers, in upstream's steps and words.

use std::{net::IpAddr, path::Path};

use k8s_openapi::{
    api::core::v1::{Container, ImageVolumeSource, Pod, Volume},
    jiff::Timestamp,
};
use kubecontroller::events::EventType as Tone;

use super::{
    Parts,
    gate::Gate,
    hooks::{self, Hooked},
    hosts, message,
    plan::Why,
    spec::{self, Kind, Request},
    status::{Seen, Waiting},
    stop::Stopper,
    told::{Teller, container_reference},
};
use crate::{
    Facts, environment,
    images::{self, Images, keyring::Keyring, limited},
    runtime::{ContainerId, ContainerState, Image, Mount, Runtime, RuntimeError, SandboxId, SandboxSpec},
};

/// What containers of a pod are started with.
pub(super) struct Starter<'a> {
    /// The parts of the agent.
    pub parts: &'a Parts,
    /// Who is told.
    pub teller: &'a Teller,
    /// Who brings images.
    pub images: &'a Images,
    /// When it is their turn.
    pub gate: &'a Gate,
    /// What runs them.
    pub runtime: &'a dyn Runtime,
    /// The pod, with the resources it was granted.
    pub pod: &'a Pod,
    /// What is there of it.
    pub seen: &'a Seen,
    /// What is known of the node.
    pub facts: &'a Facts,
    /// The secrets it brings for registries.
    pub keyring: &'a Keyring,
    /// Its folder.
    pub folder: &'a Path,
    /// Its sandbox.
    pub sandbox: &'a SandboxId,
    /// What that was made of.
    pub sandbox_spec: &'a SandboxSpec,
    /// The addresses of the pod.
    pub addresses: &'a [IpAddr],
}

/// Why a container was not started.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotStarted {
    /// What its status says.
    pub waiting: Waiting,
    /// When it makes sense to try again, if that is known.
    pub again: Option<Timestamp>,
}

// --- Starter ---

impl Starter<'_> {
    /// Starts a container.
    pub(super) async fn start(&self, container: &Container, kind: Kind) -> Result<(), NotStarted> {
        let regarding = container_reference(self.pod, &container.name);
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let request = images::Request {
            uid,
            regarding: &regarding,
            image: container.image.as_deref().unwrap_or_default(),
            policy: container.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
            keyring: self.keyring,
        };
        for volume in self.image_volumes(container) {
            let request = images::Request {
                image: volume.reference.as_deref().unwrap_or_default(),
                policy: volume.pull_policy.as_deref().unwrap_or("IfNotPresent"),
                ..request
            };
            self.image(container, &request).await?;
        }
        let image = self.image(container, &request).await?;
        let attempt = self.attempt(&container.name).await?;
        let started = self.begin(container, kind, attempt, &image);
        let id = self.gate.through(started).await?;
        self.post_start(container, &id, attempt).await
    }

    /// Makes and starts a container whose image is there.
    async fn begin(
        &self,
        container: &Container,
        kind: Kind,
        attempt: u32,
        image: &Image,
    ) -> Result<ContainerId, NotStarted> {
        let made = self.make(container, kind, attempt, image).await;
        let id = made.map_err(|(reason, message)| self.failed(container, None, reason, message))?;
        self.tell(container, &id, "Created", "Container created");
        let starting = self.runtime.start_container(&id);
        if let Err(error) = limited(self.parts.settings.start_limit, "StartContainer", starting).await {
            return Err(self.failed(container, Some(&id), "RunContainerError", error.to_string()));
        }
        self.tell(container, &id, "Started", "Container started");
        Ok(id)
    }

    /// Brings an image.
    async fn image(&self, container: &Container, request: &images::Request<'_>) -> Result<Image, NotStarted> {
        let ensured = self.images.ensure(self.runtime, request).await;
        ensured.map_err(|trouble| {
            self.warn(container, None, "Failed", &format!("Error: {}", trouble.reason));
            NotStarted {
                waiting: waiting(trouble.reason, trouble.message),
                again: trouble.again,
            }
        })
    }

    /// The images that a container mounts.
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

    /// How often it was begun before. One that was made and never begun does not count: it is removed.
    async fn attempt(&self, name: &str) -> Result<u32, NotStarted> {
        let mut most = None;
        let there: Vec<_> = self.seen.all(name).collect();
        for there in there {
            if there.state == ContainerState::Created {
                let removal = self.runtime.remove_container(&there.id);
                let removed = limited(self.parts.settings.stop_limit, "RemoveContainer", removal).await;
                removed.map_err(|error| NotStarted {
                    waiting: waiting("CreateContainerError", error.to_string()),
                    again: None,
                })?;
            } else {
                most = most.max(Some(there.attempt));
            }
        }
        Ok(most.map_or_else(|| self.told_attempt(name), |most| most + 1))
    }

    /// When the runtime has forgotten a container, the API has not.
    fn told_attempt(&self, name: &str) -> u32 {
        let Some(status) = &self.pod.status else {
            return 0;
        };
        let lists = [
            &status.container_statuses,
            &status.init_container_statuses,
            &status.ephemeral_container_statuses,
        ];
        let told = lists
            .into_iter()
            .flatten()
            .flatten()
            .find(|status| status.name == name);
        let was_there = |status: &&k8s_openapi::api::core::v1::ContainerStatus| {
            status.container_id.as_ref().is_some_and(|id| !id.is_empty())
        };
        let count = told.filter(was_there).map(|status| status.restart_count + 1);
        count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
    }

    /// Makes a container; if not, in a word and in a sentence why.
    async fn make(
        &self,
        container: &Container,
        kind: Kind,
        attempt: u32,
        image: &Image,
    ) -> Result<ContainerId, (&'static str, String)> {
        const CONFIG: &str = "CreateContainerConfigError";
        let config = |error: &dyn std::fmt::Display| (CONFIG, error.to_string());
        let sources = &*self.parts.sources;
        let environment = environment::of(
            self.pod,
            container,
            sources,
            self.facts,
            self.addresses,
            &self.parts.volumes,
        )
        .await
        .map_err(|error| config(&error))?;
        let volumes = &*self.parts.volumes;
        let mut mounts = volumes
            .mounts(self.pod, container, &environment)
            .await
            .map_err(|error| config(&error))?;
        mounts.extend(
            self.own_mounts(container, attempt, &mounts)
                .map_err(|error| (CONFIG, error))?,
        );
        let target = self.target(container, kind);
        let spec = spec::container(&Request {
            pod: self.pod,
            container,
            kind,
            attempt,
            image,
            environment: &environment,
            mounts: &mounts,
            target: target.as_ref(),
            facts: self.facts,
        });
        let spec = spec.map_err(|error| config(&error))?;
        let creation = self
            .runtime
            .create_container(self.sandbox, self.sandbox_spec, &spec);
        let created = limited(self.parts.settings.start_limit, "CreateContainer", creation).await;
        created.map_err(|error| ("CreateContainerError", error.to_string()))
    }

    /// What every container has mounted, whatever its pod says.
    fn own_mounts(
        &self,
        container: &Container,
        attempt: u32,
        mounts: &[Mount],
    ) -> Result<Vec<Mount>, String> {
        let hosts = hosts::mount(self.pod, self.folder, self.facts, self.addresses, mounts);
        let message = message::mount(self.folder, container, attempt);
        let hosts = hosts.map_err(|error| error.to_string())?;
        let message =
            message.map_err(|error| format!("cannot make the file of the last message: {error}"))?;
        Ok(hosts.into_iter().chain(message).collect())
    }

    /// The container whose processes an ephemeral one wants to see.
    fn target(&self, container: &Container, kind: Kind) -> Option<ContainerId> {
        if kind != Kind::Ephemeral {
            return None;
        }
        let all = self.pod.spec.as_ref()?.ephemeral_containers.as_ref()?;
        let ephemeral = all.iter().find(|one| one.name == container.name)?;
        let target = ephemeral.target_container_name.as_ref()?;
        self.seen.newest(target).map(|there| there.id.clone())
    }

    async fn post_start(
        &self,
        container: &Container,
        id: &ContainerId,
        attempt: u32,
    ) -> Result<(), NotStarted> {
        let Some(hook) = container
            .lifecycle
            .as_ref()
            .and_then(|hooks| hooks.post_start.as_ref())
        else {
            return Ok(());
        };
        let hooked = Hooked {
            runtime: self.runtime,
            pod: self.pod,
            container,
            id,
            addresses: self.addresses,
        };
        let Err(message) = hooks::run(&hooked, hook, self.parts.settings.hook_limit).await else {
            return Ok(());
        };
        self.warn(container, Some(id), "FailedPostStartHook", "PostStartHook failed");
        let stopper = Stopper {
            runtime: self.runtime,
            pod: Some(self.pod),
            addresses: self.addresses,
            teller: self.teller,
            limit: self.parts.settings.stop_limit,
        };
        let there = crate::runtime::Container {
            id: id.clone(),
            sandbox: self.sandbox.clone(),
            pod: crate::PodIdentity::of(self.pod),
            name: container.name.clone(),
            attempt,
            image: String::new(),
            image_id: String::new(),
            created: self.parts.clock.now(),
            state: ContainerState::Unknown,
            annotations: std::collections::BTreeMap::default(),
            labels: std::collections::BTreeMap::default(),
        };
        if let Err(error) = stopper
            .container(&there, Some("FailedPostStartHook"), Why::Other, None)
            .await
        {
            tracing::warn!(pod = %there.pod, container = container.name, %error, "cannot end a container");
        }
        Err(NotStarted {
            waiting: waiting("PostStartHookError", message),
            again: None,
        })
    }

    fn failed(
        &self,
        container: &Container,
        id: Option<&ContainerId>,
        reason: &str,
        message: String,
    ) -> NotStarted {
        self.warn(container, id, "Failed", &format!("Error: {message}"));
        NotStarted {
            waiting: waiting(reason, message),
            again: None,
        }
    }

    fn tell(&self, container: &Container, id: &ContainerId, reason: &str, message: &str) {
        self.teller
            .container(self.pod, container, Some(id), Tone::Normal, reason, message);
    }

    fn warn(&self, container: &Container, id: Option<&ContainerId>, reason: &str, message: &str) {
        self.teller
            .container(self.pod, container, id, Tone::Warning, reason, message);
    }
}

/// Makes a sandbox.
pub(super) async fn sandbox(
    parts: &Parts,
    runtime: &dyn Runtime,
    spec: &SandboxSpec,
) -> Result<SandboxId, RuntimeError> {
    limited(
        parts.settings.start_limit,
        "RunPodSandbox",
        runtime.run_sandbox(spec),
    )
    .await
}

/// Why a container is not begun.
pub(super) fn waiting(reason: &str, message: String) -> Waiting {
    Waiting {
        reason: reason.to_owned(),
        message,
    }
}
