//! In-memory runtime for tests: tests choose what containers do, which calls fail and how long calls take.
//!
//! It uses tokio's clock, so that tests with paused time do not wait; [`clock`] derives the wall clock from it.

mod container;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kubecontroller::Clock;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};

use self::container::FakeContainer;
use super::{
    Container, ContainerId, ContainerResources, ContainerSpec, ContainerState, ContainerStats, ExecOutput,
    ExecSpec, FilesystemUsage, Image, LogLine, LogOptions, NamespaceMode, PodLifecycleEvent, PortStream,
    ProcessStreams, PullSecret, Runtime, RuntimeError, RuntimeStatus, RuntimeVersion, Sandbox, SandboxId,
    SandboxSpec, SandboxState,
};

/// What a container does after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeProgram {
    /// Runs until it is stopped, and exits at once then.
    Run,
    /// Runs until its grace period has passed.
    IgnoreStop,
    /// Exits by itself.
    Exit {
        /// Run time.
        after: Duration,
        /// Exit code.
        code: i32,
    },
}

/// An injected fault.
#[derive(Clone, Debug)]
enum Fault {
    Refused(String),
    NotFound(String),
    Timeout,
    Slow(Duration),
}

/// Where a call is interrupted, as if the agent was killed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// Before it has an effect.
    Before,
    /// After its effect, before the caller gets the result.
    After,
}

/// In-memory runtime. Clones share the state.
#[derive(Clone)]
pub struct FakeRuntime {
    state: Arc<Mutex<FakeState>>,
    clock: Clock,
    /// Number of changes; wakes subscribers of container events.
    changed: watch::Sender<u64>,
    /// Whether a call was interrupted.
    interrupted: watch::Sender<bool>,
}

#[derive(Default)]
struct FakeState {
    sandboxes: Vec<Sandbox>,
    /// Runtime handlers of sandboxes, by pod name.
    handlers: HashMap<String, String>,
    containers: Vec<FakeContainer>,
    images: BTreeMap<String, Image>,
    registry: BTreeMap<String, Image>,
    /// Images of containers that do not belong to this node.
    images_of_others: Vec<String>,
    programs: HashMap<String, VecDeque<FakeProgram>>,
    exec_outputs: HashMap<String, ExecOutput>,
    logs: HashMap<String, Vec<LogLine>>,
    faults: Vec<(String, usize, Fault)>,
    calls: Vec<String>,
    interrupt_at: Option<(usize, Interruption)>,
    counted: usize,
    next: u32,
    problems: Vec<String>,
}

/// Wall clock that follows tokio's clock from a fixed start.
pub fn clock() -> Clock {
    let start = Instant::now();
    let start_time = Timestamp::from_second(1_780_000_000).expect("a time of this century");
    Clock::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or_default();
        start_time.checked_add(elapsed).unwrap_or(start_time)
    })
}

// --- FakeRuntime: set-up and inspection by tests ---

impl FakeRuntime {
    /// Creates a runtime without images and containers.
    pub fn new(clock: Clock) -> Self {
        FakeRuntime {
            state: Arc::default(),
            clock,
            changed: watch::Sender::new(0),
            interrupted: watch::Sender::new(false),
        }
    }

    /// Adds an image that is present on the machine.
    #[must_use]
    pub fn with_image(self, name: &str) -> Self {
        self.state().images.insert(name.to_owned(), image(name));
        self
    }

    /// Adds a container of another owner with this image.
    #[must_use]
    pub fn with_foreign_container(self, image: &str) -> Self {
        self.state().images_of_others.push(image.to_owned());
        self
    }

    /// Adds an image to the registry.
    #[must_use]
    pub fn with_registry_image(self, name: &str) -> Self {
        self.state().registry.insert(name.to_owned(), image(name));
        self
    }

    /// Sets the programs of successive containers with this name; the last one repeats.
    pub fn set_programs(&self, container: &str, programs: &[FakeProgram]) {
        let programs = programs.iter().copied().collect();
        self.state().programs.insert(container.to_owned(), programs);
    }

    /// Sets the output of commands in containers with this name.
    pub fn set_exec_output(&self, container: &str, output: ExecOutput) {
        self.state().exec_outputs.insert(container.to_owned(), output);
    }

    /// Sets the log of containers with this name.
    pub fn set_log(&self, container: &str, lines: Vec<LogLine>) {
        self.state().logs.insert(container.to_owned(), lines);
    }

    /// Lets the next `times` calls fail.
    pub fn fail_calls(&self, call: &str, times: usize, message: &str) {
        let fault = Fault::Refused(message.to_owned());
        self.state().faults.push((call.to_owned(), times, fault));
    }

    /// Lets the next `times` calls return not found.
    pub fn return_not_found(&self, call: &str, times: usize) {
        let fault = Fault::NotFound(format!("{call}: not found"));
        self.state().faults.push((call.to_owned(), times, fault));
    }

    /// Lets the next `times` calls time out.
    pub fn time_out_calls(&self, call: &str, times: usize) {
        self.state().faults.push((call.to_owned(), times, Fault::Timeout));
    }

    /// Delays the next `times` calls. `call` may include the subject, as in [`FakeRuntime::calls`].
    pub fn delay_calls(&self, call: &str, times: usize, by: Duration) {
        self.state()
            .faults
            .push((call.to_owned(), times, Fault::Slow(by)));
    }

    /// Sets the problems of the runtime status.
    pub fn set_problems(&self, problems: &[&str]) {
        self.state().problems = problems.iter().map(|text| (*text).to_owned()).collect();
    }

    /// Interrupts the call with this number, counted from now: it and all later calls never return.
    pub fn interrupt_at(&self, call: usize, interruption: Interruption) {
        let mut state = self.state();
        state.interrupt_at = Some((call, interruption));
        state.counted = 0;
        drop(state);
        self.interrupted.send_replace(false);
    }

    /// Waits until a call was interrupted.
    pub async fn wait_until_interrupted(&self) {
        let mut interrupted = self.interrupted.subscribe();
        interrupted
            .wait_for(|interrupted| *interrupted)
            .await
            .expect("the sender is held by self");
    }

    /// Returns whether a call was interrupted.
    pub fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow()
    }

    /// Removes all faults and the interruption.
    pub fn remove_faults(&self) {
        let mut state = self.state();
        state.interrupt_at = None;
        state.faults.clear();
        drop(state);
        self.interrupted.send_replace(false);
    }

    /// Calls so far, as `method subject`.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Number of calls that start with `call`.
    pub fn count(&self, call: &str) -> usize {
        self.state()
            .calls
            .iter()
            .filter(|recorded| recorded.starts_with(call))
            .count()
    }

    /// Lets the running containers with this name exit.
    pub fn exit(&self, pod: &str, container: &str, code: i32) {
        let now = self.clock.now();
        let mut state = self.state();
        for entry in &mut state.containers {
            if entry.container.pod.name == pod && entry.container.name == container {
                entry.exit(code, now);
            }
        }
        drop(state);
        self.notify();
    }

    /// Stops the sandboxes of a pod with their containers, as after a reboot.
    pub fn lose_sandbox(&self, pod: &str) {
        let now = self.clock.now();
        let mut state = self.state();
        let FakeState {
            sandboxes,
            containers,
            ..
        } = &mut *state;
        for sandbox in sandboxes.iter_mut().filter(|sandbox| sandbox.pod.name == pod) {
            sandbox.state = SandboxState::NotReady;
            sandbox.addresses.clear();
            for entry in containers
                .iter_mut()
                .filter(|entry| entry.container.sandbox == sandbox.id)
            {
                entry.exit(137, now);
            }
        }
        drop(state);
        self.notify();
    }

    /// Names of running containers, sorted: `pod/container#attempt`.
    pub fn running(&self) -> Vec<String> {
        self.exit_due_containers();
        let state = self.state();
        let running = state
            .containers
            .iter()
            .filter(|entry| entry.container.is_running());
        let mut names: Vec<_> = running.map(FakeContainer::name).collect();
        names.sort();
        names
    }

    /// Names of all containers, in the format of [`FakeRuntime::running`].
    pub fn all_containers(&self) -> Vec<String> {
        let mut names: Vec<_> = self.state().containers.iter().map(FakeContainer::name).collect();
        names.sort();
        names
    }

    /// Number of sandboxes in this state.
    pub fn sandbox_count(&self, state_filter: SandboxState) -> usize {
        let state = self.state();
        state
            .sandboxes
            .iter()
            .filter(|sandbox| sandbox.state == state_filter)
            .count()
    }

    /// Runtime handler of the newest sandbox of a pod.
    pub fn handler(&self, pod: &str) -> Option<String> {
        self.state().handlers.get(pod).cloned()
    }

    /// Spec of the newest container with this name.
    pub fn container_spec(&self, pod: &str, container: &str) -> Option<ContainerSpec> {
        let state = self.state();
        let entry = state
            .containers
            .iter()
            .rev()
            .find(|entry| entry.is_named(pod, container))?;
        Some(entry.spec.clone())
    }

    /// Grace period with which the newest container of this name was stopped.
    pub fn grace_period(&self, pod: &str, container: &str) -> Option<Duration> {
        let state = self.state();
        state
            .containers
            .iter()
            .rev()
            .find(|entry| entry.is_named(pod, container))?
            .grace
    }
}

// --- FakeRuntime: implementation ---

impl FakeRuntime {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock()
    }

    fn notify(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Exits the containers whose run time has passed.
    fn exit_due_containers(&self) {
        let now = self.clock.now();
        let instant = Instant::now();
        for entry in &mut self.state().containers {
            if let Some((at, code)) = entry.exits_at
                && at <= instant
            {
                let late = SignedDuration::try_from(instant - at).unwrap_or_default();
                entry.exit(code, now.checked_sub(late).unwrap_or(now));
            }
        }
    }

    /// Records a call, and applies faults and the interruption before its effect.
    async fn begin(&self, call: &str, subject: &str) -> Result<(), RuntimeError> {
        let name = format!("{call} {subject}");
        let (fault, is_interrupted) = {
            let mut state = self.state();
            state.calls.push(name.trim_end().to_owned());
            let found = state
                .faults
                .iter_mut()
                .find(|(pattern, times, _)| *times > 0 && (pattern == call || name == *pattern));
            let fault = found.map(|(_, times, fault)| {
                *times -= 1;
                fault.clone()
            });
            state.counted += 1;
            let counted = state.counted;
            (
                fault,
                state.interrupt_at.is_some_and(|(at, interruption)| {
                    counted > at || (counted == at && interruption == Interruption::Before)
                }),
            )
        };
        if is_interrupted {
            self.never_return().await;
        }
        let after = Duration::from_mins(2);
        match fault {
            None => {}
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            Some(Fault::Refused(message)) => return Err(RuntimeError::OperationFailed(message)),
            Some(Fault::NotFound(message)) => return Err(RuntimeError::NotFound(message)),
            Some(Fault::Timeout) => {
                return Err(RuntimeError::Timeout {
                    what: call.to_owned(),
                    after,
                });
            }
        }
        self.exit_due_containers();
        Ok(())
    }

    /// Notifies subscribers, and applies the interruption after the effect.
    async fn complete(&self) {
        self.notify();
        let is_interrupted = {
            let state = self.state();
            state
                .interrupt_at
                .is_some_and(|(at, interruption)| state.counted >= at && interruption == Interruption::After)
        };
        if is_interrupted {
            self.never_return().await;
        }
    }

    async fn never_return(&self) {
        self.interrupted.send_replace(true);
        std::future::pending::<()>().await;
    }

    fn with_container<T>(
        &self,
        id: &ContainerId,
        change: impl FnOnce(&mut FakeContainer) -> T,
    ) -> Result<T, RuntimeError> {
        let mut state = self.state();
        let entry = state
            .containers
            .iter_mut()
            .find(|entry| entry.container.id == *id);
        entry
            .map(change)
            .ok_or_else(|| RuntimeError::NotFound(format!("no such container: {id}")))
    }
}

fn image(name: &str) -> Image {
    Image {
        id: format!("sha256:{name}"),
        tags: vec![name.to_owned()],
        digests: vec![format!("{name}@sha256:0")],
        size: 4096,
        ..Image::default()
    }
}

#[async_trait]
impl Runtime for FakeRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        self.begin("version", "").await?;
        Ok(RuntimeVersion {
            name: "fake".to_owned(),
            version: "1.0".to_owned(),
        })
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        self.begin("status", "").await?;
        Ok(RuntimeStatus {
            problems: self.state().problems.clone(),
            systemd_cgroups: false,
        })
    }

    async fn container_events(&self) -> Result<BoxStream<'static, PodLifecycleEvent>, RuntimeError> {
        let this = self.clone();
        let changed = self.changed.subscribe();
        let stream = stream::unfold((this, changed), |(this, mut changed)| async move {
            let next = {
                let state = this.state();
                state
                    .containers
                    .iter()
                    .filter_map(|entry| entry.exits_at)
                    .map(|(at, _)| at)
                    .min()
            };
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                result = changed.changed() => result.ok()?,
                () = due => this.exit_due_containers(),
            }
            Some((PodLifecycleEvent::Any, (this, changed)))
        });
        Ok(stream.boxed())
    }

    async fn run_pod_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        self.begin("run_pod_sandbox", &spec.pod.name).await?;
        let id = {
            let mut state = self.state();
            state.next += 1;
            state.handlers.insert(spec.pod.name.clone(), spec.handler.clone());
            let id = SandboxId(format!("s{}", state.next));
            let address = IpAddr::V4(Ipv4Addr::from(0x0a01_0000 + state.next));
            let has_host_network = spec.network == NamespaceMode::Node;
            state.sandboxes.push(Sandbox {
                id: id.clone(),
                pod: spec.pod.clone(),
                attempt: spec.attempt,
                state: SandboxState::Ready,
                created: self.clock.now(),
                addresses: if has_host_network {
                    Vec::new()
                } else {
                    vec![address]
                },
                labels: spec.labels.clone(),
                annotations: spec.annotations.clone(),
            });
            id
        };
        self.complete().await;
        Ok(id)
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.begin("stop_pod_sandbox", &id.0).await?;
        let now = self.clock.now();
        {
            let mut state = self.state();
            for sandbox in state.sandboxes.iter_mut().filter(|sandbox| sandbox.id == *id) {
                sandbox.state = SandboxState::NotReady;
                sandbox.addresses.clear();
            }
            for entry in state
                .containers
                .iter_mut()
                .filter(|entry| entry.container.sandbox == *id)
            {
                entry.exit(137, now);
            }
        }
        self.complete().await;
        Ok(())
    }

    async fn remove_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.begin("remove_pod_sandbox", &id.0).await?;
        {
            let mut state = self.state();
            state.sandboxes.retain(|sandbox| sandbox.id != *id);
            state.containers.retain(|entry| entry.container.sandbox != *id);
        }
        self.complete().await;
        Ok(())
    }

    async fn list_pod_sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        self.begin("list_pod_sandboxes", "").await?;
        Ok(self.state().sandboxes.clone())
    }

    async fn pod_sandbox_ips(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        self.begin("pod_sandbox_ips", &id.0).await?;
        let state = self.state();
        let found = state.sandboxes.iter().find(|sandbox| sandbox.id == *id);
        Ok(found.map(|sandbox| sandbox.addresses.clone()).unwrap_or_default())
    }

    async fn create_container(
        &self,
        sandbox: &SandboxId,
        pod: &SandboxSpec,
        spec: &ContainerSpec,
    ) -> Result<ContainerId, RuntimeError> {
        self.begin("create_container", &format!("{}/{}", pod.pod.name, spec.name))
            .await?;
        let id = {
            let mut state = self.state();
            let is_ready = |known: &Sandbox| known.id == *sandbox && known.state == SandboxState::Ready;
            if !state.sandboxes.iter().any(is_ready) {
                return Err(RuntimeError::NotFound(format!("no such sandbox: {sandbox}")));
            }
            let Some(image) = state
                .images
                .values()
                .find(|image| image.id == spec.image)
                .cloned()
            else {
                return Err(RuntimeError::NotFound(format!("no such image: {}", spec.image)));
            };
            let program = match state.programs.get_mut(&spec.name) {
                Some(programs) if programs.len() > 1 => programs.pop_front(),
                Some(programs) => programs.front().copied(),
                None => None,
            };
            state.next += 1;
            let id = ContainerId(format!("c{}", state.next));
            let container = Container {
                id: id.clone(),
                sandbox: sandbox.clone(),
                pod: pod.pod.clone(),
                name: spec.name.clone(),
                attempt: spec.attempt,
                image: spec.user_image.clone(),
                image_id: image.digests.first().cloned().unwrap_or_default(),
                created: self.clock.now(),
                state: ContainerState::Created,
                annotations: spec.annotations.clone(),
                labels: spec.labels.clone(),
            };
            state.containers.push(FakeContainer {
                container,
                spec: spec.clone(),
                program: program.unwrap_or(FakeProgram::Run),
                exits_at: None,
                grace: None,
            });
            id
        };
        self.complete().await;
        Ok(id)
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.begin("start_container", &id.0).await?;
        let started = self.clock.now();
        self.with_container(id, |entry| {
            entry.container.state = ContainerState::Running { started };
            if let FakeProgram::Exit { after, code } = entry.program {
                entry.exits_at = Some((Instant::now() + after, code));
            }
        })?;
        self.exit_due_containers();
        self.complete().await;
        Ok(())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.begin("stop_container", &id.0).await?;
        let program = self.with_container(id, |entry| {
            entry.grace = Some(grace);
            entry.container.is_running().then_some(entry.program)
        });
        // Stopping a missing or stopped container succeeds.
        let Ok(Some(program)) = program else {
            return Ok(());
        };
        let code = if program == FakeProgram::IgnoreStop {
            tokio::time::sleep(grace).await;
            137
        } else {
            0
        };
        let now = self.clock.now();
        self.with_container(id, |entry| entry.exit(code, now)).ok();
        self.complete().await;
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.begin("remove_container", &id.0).await?;
        self.state().containers.retain(|entry| entry.container.id != *id);
        self.complete().await;
        Ok(())
    }

    async fn list_containers(&self) -> Result<Vec<Container>, RuntimeError> {
        self.begin("list_containers", "").await?;
        let state = self.state();
        Ok(state
            .containers
            .iter()
            .map(|entry| entry.container.clone())
            .collect())
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        Ok(BTreeMap::new())
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &ContainerResources,
    ) -> Result<(), RuntimeError> {
        self.begin("update_container_resources", &id.0).await?;
        self.with_container(id, |entry| entry.spec.resources = resources.clone())?;
        self.complete().await;
        Ok(())
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let state = self.state();
        let images = state.containers.iter().map(|entry| entry.container.image.clone());
        Ok(images.chain(state.images_of_others.clone()).collect())
    }

    async fn image_status(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.begin("image_status", name).await?;
        let state = self.state();
        let by_id = || state.images.values().find(|image| image.id == name);
        Ok(state.images.get(name).or_else(by_id).cloned())
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.begin("list_images", "").await?;
        Ok(self.state().images.values().cloned().collect())
    }

    async fn pull_image(&self, name: &str, secret: Option<&PullSecret>) -> Result<String, RuntimeError> {
        let subject = secret.map_or_else(
            || name.to_owned(),
            |secret| format!("{name} as {}", secret.username),
        );
        self.begin("pull_image", &subject).await?;
        let id = {
            let mut state = self.state();
            let Some(image) = state.registry.get(name).cloned() else {
                return Err(RuntimeError::ImagePull(format!("{name}: not found")));
            };
            let id = image.id.clone();
            state.images.insert(name.to_owned(), image);
            id
        };
        self.complete().await;
        Ok(id)
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.begin("remove_image", id).await?;
        self.state().images.retain(|_, image| image.id != id);
        self.complete().await;
        Ok(())
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        _limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let name = self.with_container(id, |entry| entry.container.name.clone())?;
        self.begin("exec_sync", &format!("{name} {}", command.join(" ")))
            .await?;
        Ok(self.state().exec_outputs.get(&name).cloned().unwrap_or_default())
    }

    async fn exec(&self, _id: &ContainerId, _spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        Err(RuntimeError::Unsupported("exec in memory".to_owned()))
    }

    async fn attach(&self, _id: &ContainerId, _spec: &ExecSpec) -> Result<ProcessStreams, RuntimeError> {
        Err(RuntimeError::Unsupported("attach in memory".to_owned()))
    }

    async fn port_forward(&self, _id: &SandboxId, _port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        Err(RuntimeError::Unsupported("port forwarding in memory".to_owned()))
    }

    async fn container_logs(
        &self,
        id: &ContainerId,
        _options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        let name = self.with_container(id, |entry| entry.container.name.clone())?;
        self.begin("container_logs", &name).await?;
        let lines = self.state().logs.get(&name).cloned().unwrap_or_default();
        Ok(stream::iter(lines.into_iter().map(Ok)).boxed())
    }

    async fn rotate_logs(&self, _most: u64, _keep: usize) -> Result<(), RuntimeError> {
        self.begin("rotate_logs", "").await
    }

    async fn list_container_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        self.begin("list_container_stats", "").await?;
        let state = self.state();
        let running = state
            .containers
            .iter()
            .filter(|entry| entry.container.is_running());
        let usage = running.map(|entry| ContainerStats {
            pod: entry.container.pod.clone(),
            name: entry.container.name.clone(),
            ..ContainerStats::default()
        });
        Ok(usage.collect())
    }

    async fn image_fs_info(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.begin("image_fs_info", "").await?;
        let used = self.state().images.values().map(|image| image.size).sum();
        Ok(FilesystemUsage {
            used,
            ..FilesystemUsage::default()
        })
    }
}
