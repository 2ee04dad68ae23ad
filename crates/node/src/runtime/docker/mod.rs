//! Docker and Podman, through the Docker Engine API.
//!
//! ```text
//! requests, responses         messages of the Docker Engine API
//! client, line_stream, frames HTTP on a unix socket, JSON lines, multiplexed output
//! container_config, container_labels   create requests from specs (pure)
//! convert                     sandboxes, containers and images from responses (pure)
//! containers, images, exec, logs, port_forward, events, stats   the calls of the `Runtime` trait
//! inspect_cache               responses of `docker inspect`, so that lists are cheap
//! service_containers          containers outside pods, such as a database
//! pause                       the pause image
//! ```
//!
//! A sandbox is a pause container; the containers of a pod join its namespaces. The current container is named
//! `k8s_<namespace>_<pod>_<container>`; exited ones are renamed to a longer name. A foreign container with that name is not touched.
//!
//! The dockershim of older kubelets had the same design; its labels (`io.kubernetes.docker.type`) are kept.

mod client;
mod container_config;
mod container_labels;
mod containers;
mod convert;
mod events;
mod exec;
mod frames;
mod images;
mod inspect_cache;
mod line_stream;
mod logs;
mod pause;
mod port_forward;
mod requests;
mod responses;
mod service_containers;
mod stats;

use std::{collections::BTreeMap, net::IpAddr, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{future::try_join_all, stream::BoxStream};
use tokio::{fs, net::UnixStream, sync::OnceCell};

pub use self::service_containers::{
    NamedVolume, ServiceContainer, ServiceContainerPort, ServiceContainerSpec, ServiceContainerState,
};
use self::{
    client::{CALL_TIMEOUT, CallError, DockerClient},
    container_config::{ApiVersion, ContainerConfigGenerator, EngineFlavor, limits},
    container_labels::{ContainerKind, ContainerLabels},
    inspect_cache::InspectCache,
    responses::{EngineInfo, VersionResponse},
    stats::WritableLayerSizes,
};
use super::{
    Container, ContainerId, ContainerOwner, ContainerResources, ContainerSecurity, ContainerSpec,
    ContainerStats, ExecOutput, ExecSpec, FilesystemUsage, Image, LogLine, LogOptions, PodLifecycleEvent,
    PortStream, ProcessStreams, PullSecret, Runtime, RuntimeError, RuntimeStatus, RuntimeVersion, Sandbox,
    SandboxId, SandboxSpec, SecurityProfile,
};

/// The newest supported API version; older engines are called with theirs.
const NEWEST: ApiVersion = ApiVersion(1, 48);
/// The bit of `CAP_SYS_RESOURCE`, which lowering `oom_score_adj` requires.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Docker or Podman, through the Docker Engine API.
pub struct DockerRuntime {
    client: Arc<DockerClient>,
    config_generator: ContainerConfigGenerator,
    version: RuntimeVersion,
    /// Engine and socket, for messages.
    endpoint: String,
    cache: Arc<InspectCache>,
    sizes: WritableLayerSizes,
    /// Response of `/info`, which does not change while the engine runs.
    info: OnceCell<EngineInfo>,
}

// --- DockerRuntime ---

impl DockerRuntime {
    /// Connects to the daemon at `socket`; its version response identifies Docker or Podman.
    pub async fn connect(socket: &Path, owner: ContainerOwner) -> Result<Self, RuntimeError> {
        let client = DockerClient::new(socket);
        let failed = |error: CallError| {
            error.into_runtime_error(
                &format!("the container engine at {}", socket.display()),
                "connect",
            )
        };
        let answer: VersionResponse = client.get("/version", CALL_TIMEOUT).await.map_err(failed)?;
        let flavor = if answer.components.iter().any(|part| part.name.contains("Podman")) {
            EngineFlavor::Podman
        } else {
            EngineFlavor::Docker
        };
        let api = negotiate_version(&answer)
            .ok_or_else(|| failed(CallError::InvalidResponse("no API version".to_owned())))?;
        let name = match flavor {
            EngineFlavor::Docker => "docker",
            EngineFlavor::Podman => "podman",
        };
        Ok(Self {
            client: Arc::new(client.with_version(&api.to_string())),
            config_generator: ContainerConfigGenerator {
                flavor,
                api,
                owner,
                oom_floor: oom_floor(socket).await,
            },
            version: RuntimeVersion {
                name: name.to_owned(),
                version: answer.version,
            },
            endpoint: format!("{name} at {}", socket.display()),
            cache: Arc::default(),
            sizes: WritableLayerSizes::default(),
            info: OnceCell::new(),
        })
    }

    fn failed(&self, error: CallError, what: &str) -> RuntimeError {
        error.into_runtime_error(&self.endpoint, what)
    }

    /// Rejects handlers other than the default: the engine would isolate each container on its own, and the containers of a pod could not
    /// share network and processes.
    async fn check_runtime_handler(&self, handler: &str) -> Result<(), RuntimeError> {
        if handler.is_empty() || handler == self.info().await?.default_runtime {
            return Ok(());
        }
        Err(RuntimeError::Unsupported(format!(
            "runtime handler {handler:?} is not supported by {}, which runs pods with its default runtime only; use containerd or CRI-O",
            self.endpoint
        )))
    }

    async fn info(&self) -> Result<EngineInfo, RuntimeError> {
        let info = self
            .info
            .get_or_try_init(|| self.client.get::<EngineInfo>("/info", CALL_TIMEOUT))
            .await;
        info.cloned()
            .map_err(|error| self.failed(error, "get engine information"))
    }
}

/// The API version to use: ours, or the engine's newest if that is older, but at least the oldest that the engine supports.
fn negotiate_version(answer: &VersionResponse) -> Option<ApiVersion> {
    let newest = ApiVersion::read(&answer.api_version)?;
    let oldest = ApiVersion::read(&answer.min_api_version).unwrap_or(newest);
    Some(NEWEST.min(newest).max(oldest))
}

/// The lowest `oom_score_adj` that the engine can set: without `CAP_SYS_RESOURCE`, its own.
async fn oom_floor(socket: &Path) -> i64 {
    let lowest = -1_000;
    let Ok(stream) = UnixStream::connect(socket).await else {
        return lowest;
    };
    let Some(pid) = stream.peer_cred().ok().and_then(|peer| peer.pid()) else {
        return lowest;
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status")).await;
    if has_cap_sys_resource(&status.unwrap_or_default()) {
        return lowest;
    }
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).await;
    score.unwrap_or_default().trim().parse().unwrap_or(lowest)
}

/// Returns whether a process has `CAP_SYS_RESOURCE`, from its `/proc/PID/status`; true if unreadable.
fn has_cap_sys_resource(status: &str) -> bool {
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_none_or(|rights| rights & CAP_SYS_RESOURCE != 0)
}

/// Reads a localhost seccomp profile.
async fn profile(security: &ContainerSecurity) -> Result<Option<String>, RuntimeError> {
    let SecurityProfile::Localhost(file) = &security.seccomp else {
        return Ok(None);
    };
    let content = fs::read_to_string(file).await;
    content.map(Some).map_err(|error| {
        RuntimeError::OperationFailed(format!("cannot load seccomp profile \"{file}\": {error}"))
    })
}

#[async_trait]
impl Runtime for DockerRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        Ok(self.version.clone())
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let answered = self.client.get::<VersionResponse>("/version", CALL_TIMEOUT).await;
        answered.map_err(|error| self.failed(error, "get the engine version"))?;
        Ok(RuntimeStatus {
            problems: Vec::new(),
            systemd_cgroups: self.info().await?.cgroup_driver == "systemd",
        })
    }

    async fn container_events(&self) -> Result<BoxStream<'static, PodLifecycleEvent>, RuntimeError> {
        self.listen_for_events().await
    }

    async fn run_pod_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        self.check_runtime_handler(&spec.handler).await?;
        let body = self
            .config_generator
            .sandbox_config(spec, profile(&spec.security).await?.as_deref())?;
        let id = self
            .create(&ContainerLabels::of_sandbox(&spec.pod, spec.attempt), &body)
            .await?;
        if let Err(error) = self.start(&id).await {
            // The engine detects host port conflicts only at start. The sandbox is removed, and the first error returned.
            let _ = self.remove(&id).await;
            return Err(error);
        }
        Ok(SandboxId(id))
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.stop_with_containers(&id.0).await
    }

    async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.remove_with_containers(&id.0).await
    }

    async fn list_pod_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let inspected = self.inspect_all(ContainerKind::Sandbox).await?;
        Ok(inspected
            .iter()
            .filter_map(|inspected| convert::sandbox(inspected))
            .collect())
    }

    async fn pod_sandbox_ips(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        let inspected = match self.inspect(&id.0).await {
            Err(RuntimeError::NotFound(_)) => return Ok(Vec::new()),
            inspected => inspected?,
        };
        let sandbox = convert::sandbox(&inspected).filter(|_| self.owns(&inspected));
        Ok(sandbox.map(|sandbox| sandbox.addresses).unwrap_or_default())
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        let profile = profile(&spec.security).await?;
        let body = self
            .config_generator
            .container_config(sandbox, pod, spec, profile.as_deref())?;
        let labels = ContainerConfigGenerator::labels_of_container(sandbox, pod, spec);
        self.create(&labels, &body).await.map(ContainerId)
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.start(&id.0).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.stop(&id.0, grace).await
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.remove(&id.0).await
    }

    async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let inspected = self.inspect_all(ContainerKind::Container).await?;
        let containers = inspected.iter().map(|inspected| async {
            let image = self.image_id_for_status(&inspected.image).await?;
            Ok(convert::container(inspected, image))
        });
        let containers: Result<Vec<_>, RuntimeError> = try_join_all(containers).await;
        Ok(containers?.into_iter().flatten().collect())
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        self.count_other_clusters().await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &ContainerResources,
    ) -> Result<(), RuntimeError> {
        self.update_limits(id, &limits(resources)).await
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        self.list_images_in_use().await
    }

    async fn image_status(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.inspect_image(name).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.list_images().await
    }

    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        self.pull(name, secret).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.remove_image_by_names(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        self.exec_and_wait(id, command, limit).await
    }

    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        self.exec_with_streams(id, spec).await
    }

    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        self.attach_with_streams(id, spec).await
    }

    async fn port_forward(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        let inspected = self.inspect_cached(&id.0).await?;
        let sandbox =
            convert::sandbox(&inspected).filter(|_| self.owns(&inspected) && inspected.state.running);
        let Some(sandbox) = sandbox else {
            return Err(RuntimeError::NotFound(format!("sandbox {id} does not run")));
        };
        let address = sandbox.addresses.first().copied();
        let stream = port_forward::connect(inspected.state.pid, port, address).await?;
        Ok(Box::new(stream))
    }

    async fn container_logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        self.read_logs(id, options).await
    }

    /// The engine rotates logs itself, by the log options of each container.
    async fn rotate_logs(&self, _most: u64, _keep: usize) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn list_container_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        self.measure_containers().await
    }

    async fn image_fs_info(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.measure_images().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiates_common_api_version() {
        let negotiate_version = |newest: &str, oldest: &str| {
            negotiate_version(&VersionResponse {
                api_version: newest.into(),
                min_api_version: oldest.into(),
                ..VersionResponse::default()
            })
        };
        assert_eq!(negotiate_version("1.41", "1.12"), Some(ApiVersion(1, 41)));
        assert_eq!(negotiate_version("1.60", "1.44"), Some(NEWEST));
        assert_eq!(negotiate_version("1.90", "1.80"), Some(ApiVersion(1, 80)));
        assert_eq!(negotiate_version("1.41", ""), Some(ApiVersion(1, 41)));
        assert_eq!(negotiate_version("", ""), None);
    }

    #[test]
    fn lowers_oom_score_only_with_capability() {
        assert!(has_cap_sys_resource("CapEff:\t000001ffffffffff\n"));
        assert!(!has_cap_sys_resource("CapEff:\t000001fffeffffff\n"));
        assert!(has_cap_sys_resource(""));
    }
}
