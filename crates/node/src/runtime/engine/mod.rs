//! Docker and Podman, through the Docker Engine API.
//!
//! ```text
//! wire, answer     what is sent, what is read
//! client           HTTP on a unix socket
//! names, plan      what is asked for, from what the agent asks for      (pure)
//! seen, frames     what is there, from what the engine tells            (pure)
//! containers images exec logs ports events usage                        the hands
//! service          containers that are of no pod, such as a database
//! pause            the image of the container that holds a pod's namespaces
//! ```
//!
//! A sandbox is a container that only waits; the containers of a pod join its namespaces. The live container of a pod is called
//! `k8s_<namespace>_<pod>_<container>`; those that ended make room for it by a longer name. A name that somebody else holds is
//! left to them.

mod answer;
mod cache;
mod client;
mod containers;
mod events;
mod exec;
mod frames;
mod images;
mod lines;
mod logs;
mod names;
mod pause;
mod plan;
mod ports;
mod seen;
mod service;
mod usage;
mod wire;

use std::{collections::BTreeMap, fs, net::IpAddr, path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::{future::try_join_all, stream::BoxStream};
use tokio::{net::UnixStream, sync::OnceCell};

pub use self::service::{FoundService, Service, ServicePort, ServiceState, ServiceVolume};
use self::{
    answer::{Info, VersionAnswer},
    cache::Cache,
    client::{CallError, Client, QUICK},
    names::{Kind, Marks},
    plan::{Api, Flavor, Planner, limits},
    usage::Sizes,
};
use super::{
    Attached, Change, Confinement, Container, ContainerId, ContainerSpec, ContainerUsage, ExecOutput,
    ExecSpec, FilesystemUsage, Image, LogLine, LogOptions, Owner, PortStream, PullSecret, Readiness,
    Resources, Runtime, RuntimeError, Sandbox, SandboxId, SandboxSpec, Security, Version,
};

/// The newest version of the API that we know; an older engine is spoken to in its own.
const NEWEST: Api = Api(1, 48);
/// The right to lower `oom_score_adj`, as a bit of the rights of a process.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Docker or Podman.
pub struct Engine {
    client: Arc<Client>,
    planner: Planner,
    version: Version,
    /// Which engine, and where, for messages.
    place: String,
    cache: Arc<Cache>,
    sizes: Sizes,
    /// What the engine said of itself: it does not change while it runs.
    info: OnceCell<Info>,
}

// --- Engine ---

impl Engine {
    /// Talks to the daemon that listens on `socket`; its answer tells which one it is.
    pub async fn connect(socket: &Path, owner: Owner) -> Result<Self, RuntimeError> {
        let client = Client::new(socket);
        let failed = |error: CallError| {
            error.during(
                &format!("the container engine at {}", socket.display()),
                "connect",
            )
        };
        let answer: VersionAnswer = client.get("/version", QUICK).await.map_err(failed)?;
        let flavor = if answer.components.iter().any(|part| part.name.contains("Podman")) {
            Flavor::Podman
        } else {
            Flavor::Docker
        };
        let api =
            spoken(&answer).ok_or_else(|| failed(CallError::Garbled("no version of the API".to_owned())))?;
        let name = match flavor {
            Flavor::Docker => "docker",
            Flavor::Podman => "podman",
        };
        Ok(Self {
            client: Arc::new(client.with_version(&api.to_string())),
            planner: Planner {
                flavor,
                api,
                owner,
                oom_floor: oom_floor(socket).await,
            },
            version: Version {
                name: name.to_owned(),
                version: answer.version,
            },
            place: format!("{name} at {}", socket.display()),
            cache: Arc::default(),
            sizes: Sizes::default(),
            info: OnceCell::new(),
        })
    }

    fn failed(&self, error: CallError, what: &str) -> RuntimeError {
        error.during(&self.place, what)
    }

    async fn info(&self) -> Result<Info, RuntimeError> {
        let info = self
            .info
            .get_or_try_init(|| self.client.get::<Info>("/info", QUICK))
            .await;
        info.cloned()
            .map_err(|error| self.failed(error, "ask for its properties"))
    }
}

/// The version of the API to speak: ours, or the engine's if that is older, and never one that it has given up.
fn spoken(answer: &VersionAnswer) -> Option<Api> {
    let newest = Api::read(&answer.api_version)?;
    let oldest = Api::read(&answer.min_api_version).unwrap_or(newest);
    Some(NEWEST.min(newest).max(oldest))
}

/// The lowest `oom_score_adj` that the engine's process may give to others: without the right to lower it, its own.
async fn oom_floor(socket: &Path) -> i64 {
    let lowest = -1_000;
    let Ok(stream) = UnixStream::connect(socket).await else {
        return lowest;
    };
    let Some(pid) = stream.peer_cred().ok().and_then(|peer| peer.pid()) else {
        return lowest;
    };
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    if may_lower(&read("status")) {
        return lowest;
    }
    read("oom_score_adj").trim().parse().unwrap_or(lowest)
}

/// Whether a process may lower `oom_score_adj`, by its `/proc/PID/status`. One that cannot be looked at is trusted to.
fn may_lower(status: &str) -> bool {
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_none_or(|rights| rights & CAP_SYS_RESOURCE != 0)
}

/// The content of a seccomp profile in a file.
async fn profile(security: &Security) -> Result<Option<String>, RuntimeError> {
    let Confinement::Local(file) = &security.seccomp else {
        return Ok(None);
    };
    let content = tokio::fs::read_to_string(file).await;
    content
        .map(Some)
        .map_err(|error| RuntimeError::Refused(format!("cannot load seccomp profile \"{file}\": {error}")))
}

#[async_trait]
impl Runtime for Engine {
    async fn version(&self) -> Result<Version, RuntimeError> {
        Ok(self.version.clone())
    }

    async fn readiness(&self) -> Result<Readiness, RuntimeError> {
        let answered = self.client.get::<VersionAnswer>("/version", QUICK).await;
        answered.map_err(|error| self.failed(error, "ask whether it is there"))?;
        Ok(Readiness {
            problems: Vec::new(),
            systemd_cgroups: self.info().await?.cgroup_driver == "systemd",
        })
    }

    async fn changes(&self) -> Result<BoxStream<'static, Change>, RuntimeError> {
        self.listen().await
    }

    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        let body = self
            .planner
            .sandbox(spec, profile(&spec.security).await?.as_deref())?;
        let id = self
            .make(&Marks::of_sandbox(&spec.pod, spec.attempt), &body)
            .await?;
        if let Err(error) = self.start(&id).await {
            // A port that is taken shows only here. What cannot start is of no use; the first error is the one to tell.
            let _ = self.remove(&id).await;
            return Err(error);
        }
        Ok(SandboxId(id))
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.stop_all(&id.0).await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.remove_all(&id.0).await
    }

    async fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        let seen = self.look(Kind::Sandbox).await?;
        Ok(seen.iter().filter_map(|seen| seen::sandbox(seen)).collect())
    }

    async fn addresses(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        let seen = match self.inspect(&id.0).await {
            Err(RuntimeError::NotFound(_)) => return Ok(Vec::new()),
            seen => seen?,
        };
        let sandbox = seen::sandbox(&seen).filter(|_| self.owns(&seen));
        Ok(sandbox.map(|sandbox| sandbox.addresses).unwrap_or_default())
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        let profile = profile(&spec.security).await?;
        let body = self.planner.container(sandbox, pod, spec, profile.as_deref())?;
        let marks = Planner::container_marks(sandbox, pod, spec);
        self.make(&marks, &body).await.map(ContainerId)
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

    async fn containers(&self) -> Result<Vec<Container>, RuntimeError> {
        let seen = self.look(Kind::Container).await?;
        let containers = seen.iter().map(|seen| async {
            let image = self.told_image(&seen.image).await?;
            Ok(seen::container(seen, image))
        });
        let containers: Result<Vec<_>, RuntimeError> = try_join_all(containers).await;
        Ok(containers?.into_iter().flatten().collect())
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        self.count_other_clusters().await
    }

    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), RuntimeError> {
        self.change_limits(id, &limits(resources)).await
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        self.list_images_in_use().await
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.find_image(name).await
    }

    async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.list_images().await
    }

    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        self.bring_image(name, secret).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.drop_image(id).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        self.run_command(id, command, limit).await
    }

    async fn exec(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        self.begin_command(id, spec).await
    }

    async fn attach(&self, id: &ContainerId, spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        self.attach_to(id, spec).await
    }

    async fn connect(&self, id: &SandboxId, port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        let seen = self.seen(&id.0).await?;
        let sandbox = seen::sandbox(&seen).filter(|_| self.owns(&seen) && seen.state.running);
        let Some(sandbox) = sandbox else {
            return Err(RuntimeError::NotFound(format!("the sandbox {id} does not run")));
        };
        let address = sandbox.addresses.first().copied();
        let stream = ports::connect(seen.state.pid, port, address).await?;
        Ok(Box::new(stream))
    }

    async fn logs(
        &self,
        id: &ContainerId,
        options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        self.read_logs(id, options).await
    }

    /// The engine does it by itself, by what each container was made with.
    async fn rotate_logs(&self, _most: u64, _keep: usize) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn usage(&self) -> Result<Vec<ContainerUsage>, RuntimeError> {
        self.measure().await
    }

    async fn image_filesystem(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.images_on_disk().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_spoken_is_one_that_both_know() {
        let spoken = |newest: &str, oldest: &str| {
            spoken(&VersionAnswer {
                api_version: newest.into(),
                min_api_version: oldest.into(),
                ..VersionAnswer::default()
            })
        };
        assert_eq!(spoken("1.41", "1.12"), Some(Api(1, 41)));
        assert_eq!(spoken("1.60", "1.44"), Some(NEWEST));
        assert_eq!(spoken("1.90", "1.80"), Some(Api(1, 80)));
        assert_eq!(spoken("1.41", ""), Some(Api(1, 41)));
        assert_eq!(spoken("", ""), None);
    }

    #[test]
    fn an_engine_without_the_right_is_not_asked_to_lower_scores() {
        assert!(may_lower("CapEff:\t000001ffffffffff\n"));
        assert!(!may_lower("CapEff:\t000001fffeffffff\n"));
        assert!(may_lower(""));
    }
}
