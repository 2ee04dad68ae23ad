//! A runtime in memory, for tests: containers run and end as they are told, calls fail and take time as they are told.
//!
//! Time is tokio's, so that a test that pauses it waits for nothing; the time of day is a [`Clock`]'s, which [`clock`] makes of it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kubecontroller::Clock;
use tokio::{sync::watch, time::Instant};

use super::{
    Attached, Change, Container, ContainerId, ContainerSpec, ContainerState, ContainerUsage, ExecOutput,
    ExecSpec, Exit, FilesystemUsage, Image, LogLine, LogOptions, NamespaceMode, PortStream, PullSecret,
    Readiness, Resources, Runtime, RuntimeError, Sandbox, SandboxId, SandboxSpec, SandboxState, Version,
};

/// What a container does once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Runs until it is asked to end, and then ends at once.
    Run,
    /// Runs until its grace is over.
    Stubborn,
    /// Ends by itself.
    Exit {
        /// After this time.
        after: Duration,
        /// With this code.
        code: i32,
    },
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
enum Fault {
    Refused(String),
    NotFound(String),
    Timeout,
    Slow(Duration),
}

/// Where a call is cut, as if the agent had been killed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before anything was done.
    Before,
    /// After it was done, and before anybody heard of it.
    After,
}

/// A runtime in memory. Clones are the same.
#[derive(Clone)]
pub struct FakeRuntime {
    state: Arc<Mutex<State>>,
    clock: Clock,
    /// Counts changes; wakes who listens.
    changed: watch::Sender<u64>,
    /// Whether a call was cut.
    cut: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    sandboxes: Vec<Sandbox>,
    containers: Vec<Made>,
    images: BTreeMap<String, Image>,
    registry: BTreeMap<String, Image>,
    /// Images of containers that are not of this node.
    images_of_others: Vec<String>,
    programs: HashMap<String, VecDeque<Program>>,
    answers: HashMap<String, ExecOutput>,
    written: HashMap<String, Vec<LogLine>>,
    faults: Vec<(String, usize, Fault)>,
    calls: Vec<String>,
    cut_at: Option<(usize, Cut)>,
    counted: usize,
    next: u32,
    problems: Vec<String>,
}

/// A container with what it does.
struct Made {
    container: Container,
    spec: ContainerSpec,
    program: Program,
    /// When it ends by itself, and its code.
    ends: Option<(Instant, i32)>,
    grace: Option<Duration>,
}

/// The time of day that goes with tokio's clock: noon of a day, and what has passed since it was made.
pub fn clock() -> Clock {
    let begun = Instant::now();
    let noon = Timestamp::from_second(1_780_000_000).expect("a time of this century");
    Clock::new(move || {
        let passed = SignedDuration::try_from(begun.elapsed()).unwrap_or_default();
        noon.checked_add(passed).unwrap_or(noon)
    })
}

// --- FakeRuntime: what tests say ---

impl FakeRuntime {
    /// One without images and containers.
    pub fn new(clock: Clock) -> Self {
        FakeRuntime {
            state: Arc::default(),
            clock,
            changed: watch::Sender::new(0),
            cut: watch::Sender::new(false),
        }
    }

    /// Has an image on the machine.
    #[must_use]
    pub fn with_image(self, name: &str) -> Self {
        self.state().images.insert(name.to_owned(), image(name));
        self
    }

    /// Has a container of somebody else with an image.
    #[must_use]
    pub fn with_foreign_container(self, image: &str) -> Self {
        self.state().images_of_others.push(image.to_owned());
        self
    }

    /// Has an image in the registry.
    #[must_use]
    pub fn in_registry(self, name: &str) -> Self {
        self.state().registry.insert(name.to_owned(), image(name));
        self
    }

    /// What the containers of this name do, one after the other; the last goes on for all that follow.
    pub fn program(&self, container: &str, programs: &[Program]) {
        let programs = programs.iter().copied().collect();
        self.state().programs.insert(container.to_owned(), programs);
    }

    /// What commands answer in containers of this name.
    pub fn answer(&self, container: &str, output: ExecOutput) {
        self.state().answers.insert(container.to_owned(), output);
    }

    /// What containers of this name have written.
    pub fn written(&self, container: &str, lines: Vec<LogLine>) {
        self.state().written.insert(container.to_owned(), lines);
    }

    /// Lets the next calls of a method fail.
    pub fn refuse(&self, call: &str, times: usize, message: &str) {
        let fault = Fault::Refused(message.to_owned());
        self.state().faults.push((call.to_owned(), times, fault));
    }

    /// Lets the next calls of a method answer that there is no such thing.
    pub fn not_found(&self, call: &str, times: usize) {
        let fault = Fault::NotFound(format!("{call}: no such thing"));
        self.state().faults.push((call.to_owned(), times, fault));
    }

    /// Lets the next calls of a method be given up.
    pub fn time_out(&self, call: &str, times: usize) {
        self.state().faults.push((call.to_owned(), times, Fault::Timeout));
    }

    /// Lets the next calls of a method take so long. A call may be named with its subject, as [`FakeRuntime::calls`] tells it.
    pub fn slow(&self, call: &str, times: usize, by: Duration) {
        self.state()
            .faults
            .push((call.to_owned(), times, Fault::Slow(by)));
    }

    /// What it says is wrong with itself.
    pub fn problems(&self, problems: &[&str]) {
        self.state().problems = problems.iter().map(|text| (*text).to_owned()).collect();
    }

    /// Lets the call of this number, counted from now, and all after it never answer.
    pub fn cut_at(&self, call: usize, cut: Cut) {
        let mut state = self.state();
        state.cut_at = Some((call, cut));
        state.counted = 0;
        drop(state);
        self.cut.send_replace(false);
    }

    /// Waits until a call was cut.
    pub async fn was_cut(&self) {
        let mut cut = self.cut.subscribe();
        cut.wait_for(|cut| *cut)
            .await
            .expect("the sender is held by self");
    }

    /// Whether a call was cut.
    pub fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    /// Answers again.
    pub fn heal(&self) {
        let mut state = self.state();
        state.cut_at = None;
        state.faults.clear();
        drop(state);
        self.cut.send_replace(false);
    }

    /// What was asked so far, as `method subject`.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// How often this was asked, by the beginning of the call.
    pub fn count(&self, call: &str) -> usize {
        self.state()
            .calls
            .iter()
            .filter(|made| made.starts_with(call))
            .count()
    }

    /// Ends the running container of this name.
    pub fn exit(&self, pod: &str, container: &str, code: i32) {
        let now = self.clock.now();
        let mut state = self.state();
        for made in &mut state.containers {
            if made.container.pod.name == pod && made.container.name == container {
                made.end(code, now);
            }
        }
        drop(state);
        self.tell();
    }

    /// Lets the sandboxes of a pod end, and what runs in them, as after a reboot.
    pub fn lose_sandbox(&self, pod: &str) {
        let now = self.clock.now();
        let mut state = self.state();
        let State {
            sandboxes,
            containers,
            ..
        } = &mut *state;
        for sandbox in sandboxes.iter_mut().filter(|sandbox| sandbox.pod.name == pod) {
            sandbox.state = SandboxState::NotReady;
            sandbox.addresses.clear();
            for made in containers
                .iter_mut()
                .filter(|made| made.container.sandbox == sandbox.id)
            {
                made.end(137, now);
            }
        }
        drop(state);
        self.tell();
    }

    /// The names of containers that run, with their attempts, sorted: `pod/container#attempt`.
    pub fn running(&self) -> Vec<String> {
        self.settle();
        let state = self.state();
        let running = state.containers.iter().filter(|made| made.container.is_running());
        let mut names: Vec<_> = running.map(Made::name).collect();
        names.sort();
        names
    }

    /// All containers, also dead ones, as [`FakeRuntime::running`] names them.
    pub fn all(&self) -> Vec<String> {
        let mut names: Vec<_> = self.state().containers.iter().map(Made::name).collect();
        names.sort();
        names
    }

    /// How many sandboxes are there in this state.
    pub fn sandbox_count(&self, wanted: SandboxState) -> usize {
        let state = self.state();
        state
            .sandboxes
            .iter()
            .filter(|sandbox| sandbox.state == wanted)
            .count()
    }

    /// What the newest container of this name was made of.
    pub fn spec_of(&self, pod: &str, container: &str) -> Option<ContainerSpec> {
        let state = self.state();
        let made = state
            .containers
            .iter()
            .rev()
            .find(|made| made.is(pod, container))?;
        Some(made.spec.clone())
    }

    /// How long the newest container of this name was given to end.
    pub fn grace_of(&self, pod: &str, container: &str) -> Option<Duration> {
        let state = self.state();
        state
            .containers
            .iter()
            .rev()
            .find(|made| made.is(pod, container))?
            .grace
    }
}

// --- FakeRuntime: how it does it ---

impl FakeRuntime {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Ends what was to end by now.
    fn settle(&self) {
        let (now, instant) = (self.clock.now(), Instant::now());
        for made in &mut self.state().containers {
            if let Some((at, code)) = made.ends
                && at <= instant
            {
                let late = SignedDuration::try_from(instant - at).unwrap_or_default();
                made.end(code, now.checked_sub(late).unwrap_or(now));
            }
        }
    }

    /// Notes a call, and does what goes wrong with it before it is done.
    async fn begin(&self, call: &str, subject: &str) -> Result<(), RuntimeError> {
        let name = format!("{call} {subject}");
        let (fault, cut) = {
            let mut state = self.state();
            state.calls.push(name.trim_end().to_owned());
            let found = state
                .faults
                .iter_mut()
                .find(|(wanted, times, _)| *times > 0 && (wanted == call || name == *wanted));
            let fault = found.map(|(_, times, fault)| {
                *times -= 1;
                fault.clone()
            });
            state.counted += 1;
            let counted = state.counted;
            (
                fault,
                state
                    .cut_at
                    .is_some_and(|(at, cut)| counted > at || (counted == at && cut == Cut::Before)),
            )
        };
        if cut {
            self.hang().await;
        }
        let after = Duration::from_mins(2);
        match fault {
            None => {}
            Some(Fault::Slow(time)) => tokio::time::sleep(time).await,
            Some(Fault::Refused(message)) => return Err(RuntimeError::Refused(message)),
            Some(Fault::NotFound(message)) => return Err(RuntimeError::NotFound(message)),
            Some(Fault::Timeout) => {
                return Err(RuntimeError::Timeout {
                    what: call.to_owned(),
                    after,
                });
            }
        }
        self.settle();
        Ok(())
    }

    /// Tells that something was done, unless the agent is killed before it hears of it.
    async fn finish(&self) {
        self.tell();
        let cut = {
            let state = self.state();
            state
                .cut_at
                .is_some_and(|(at, cut)| state.counted >= at && cut == Cut::After)
        };
        if cut {
            self.hang().await;
        }
    }

    async fn hang(&self) {
        self.cut.send_replace(true);
        std::future::pending::<()>().await;
    }

    fn with_container<T>(
        &self,
        id: &ContainerId,
        change: impl FnOnce(&mut Made) -> T,
    ) -> Result<T, RuntimeError> {
        let mut state = self.state();
        let made = state.containers.iter_mut().find(|made| made.container.id == *id);
        made.map(change)
            .ok_or_else(|| RuntimeError::NotFound(format!("no such container: {id}")))
    }
}

impl Made {
    fn name(&self) -> String {
        let Container {
            pod, name, attempt, ..
        } = &self.container;
        format!("{}/{name}#{attempt}", pod.name)
    }

    fn is(&self, pod: &str, container: &str) -> bool {
        self.container.pod.name == pod && self.container.name == container
    }

    fn end(&mut self, code: i32, at: Timestamp) {
        let ContainerState::Running { started } = self.container.state else {
            return;
        };
        self.ends = None;
        let reason = if code == 0 { "Completed" } else { "Error" };
        self.container.state = ContainerState::Exited(Exit {
            code,
            signal: None,
            started: Some(started),
            finished: at,
            reason: reason.to_owned(),
            message: String::new(),
        });
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
    async fn version(&self) -> Result<Version, RuntimeError> {
        self.begin("version", "").await?;
        Ok(Version {
            name: "fake".to_owned(),
            version: "1.0".to_owned(),
        })
    }

    async fn readiness(&self) -> Result<Readiness, RuntimeError> {
        self.begin("readiness", "").await?;
        Ok(Readiness {
            problems: self.state().problems.clone(),
            systemd_cgroups: false,
        })
    }

    async fn changes(&self) -> Result<BoxStream<'static, Change>, RuntimeError> {
        let this = self.clone();
        let heard = self.changed.subscribe();
        let stream = stream::unfold((this, heard), |(this, mut heard)| async move {
            let next = {
                let state = this.state();
                state
                    .containers
                    .iter()
                    .filter_map(|made| made.ends)
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
                changed = heard.changed() => changed.ok()?,
                () = due => this.settle(),
            }
            Some((Change::Any, (this, heard)))
        });
        Ok(stream.boxed())
    }

    async fn run_sandbox(&self, spec: &SandboxSpec) -> Result<SandboxId, RuntimeError> {
        self.begin("run_sandbox", &spec.pod.name).await?;
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = SandboxId(format!("s{}", state.next));
            let address = IpAddr::V4(Ipv4Addr::from(0x0a01_0000 + state.next));
            let hosts = spec.network == NamespaceMode::Node;
            state.sandboxes.push(Sandbox {
                id: id.clone(),
                pod: spec.pod.clone(),
                attempt: spec.attempt,
                state: SandboxState::Ready,
                created: self.clock.now(),
                addresses: if hosts { Vec::new() } else { vec![address] },
                labels: spec.labels.clone(),
                annotations: spec.annotations.clone(),
            });
            id
        };
        self.finish().await;
        Ok(id)
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.begin("stop_sandbox", &id.0).await?;
        let now = self.clock.now();
        {
            let mut state = self.state();
            for sandbox in state.sandboxes.iter_mut().filter(|sandbox| sandbox.id == *id) {
                sandbox.state = SandboxState::NotReady;
                sandbox.addresses.clear();
            }
            for made in state
                .containers
                .iter_mut()
                .filter(|made| made.container.sandbox == *id)
            {
                made.end(137, now);
            }
        }
        self.finish().await;
        Ok(())
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.begin("remove_sandbox", &id.0).await?;
        {
            let mut state = self.state();
            state.sandboxes.retain(|sandbox| sandbox.id != *id);
            state.containers.retain(|made| made.container.sandbox != *id);
        }
        self.finish().await;
        Ok(())
    }

    async fn sandboxes(&self) -> Result<Vec<Sandbox>, RuntimeError> {
        self.begin("sandboxes", "").await?;
        Ok(self.state().sandboxes.clone())
    }

    async fn addresses(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        self.begin("addresses", &id.0).await?;
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
            let is_ready = |there: &Sandbox| there.id == *sandbox && there.state == SandboxState::Ready;
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
            state.containers.push(Made {
                container,
                spec: spec.clone(),
                program: program.unwrap_or(Program::Run),
                ends: None,
                grace: None,
            });
            id
        };
        self.finish().await;
        Ok(id)
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.begin("start_container", &id.0).await?;
        let started = self.clock.now();
        self.with_container(id, |made| {
            made.container.state = ContainerState::Running { started };
            if let Program::Exit { after, code } = made.program {
                made.ends = Some((Instant::now() + after, code));
            }
        })?;
        self.settle();
        self.finish().await;
        Ok(())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.begin("stop_container", &id.0).await?;
        let program = self.with_container(id, |made| {
            made.grace = Some(grace);
            made.container.is_running().then_some(made.program)
        });
        // Stopping what is gone succeeds.
        let Ok(Some(program)) = program else {
            return Ok(());
        };
        let code = if program == Program::Stubborn {
            tokio::time::sleep(grace).await;
            137
        } else {
            0
        };
        let now = self.clock.now();
        self.with_container(id, |made| made.end(code, now)).ok();
        self.finish().await;
        Ok(())
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.begin("remove_container", &id.0).await?;
        self.state().containers.retain(|made| made.container.id != *id);
        self.finish().await;
        Ok(())
    }

    async fn containers(&self) -> Result<Vec<Container>, RuntimeError> {
        self.begin("containers", "").await?;
        let state = self.state();
        Ok(state
            .containers
            .iter()
            .map(|made| made.container.clone())
            .collect())
    }

    async fn other_clusters(&self) -> Result<BTreeMap<String, usize>, RuntimeError> {
        Ok(BTreeMap::new())
    }

    async fn update_resources(&self, id: &ContainerId, resources: &Resources) -> Result<(), RuntimeError> {
        self.begin("update_resources", &id.0).await?;
        self.with_container(id, |made| made.spec.resources = resources.clone())?;
        self.finish().await;
        Ok(())
    }

    async fn images_in_use(&self) -> Result<Vec<String>, RuntimeError> {
        let state = self.state();
        let images = state.containers.iter().map(|made| made.container.image.clone());
        Ok(images.chain(state.images_of_others.clone()).collect())
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, RuntimeError> {
        self.begin("image", name).await?;
        let state = self.state();
        let by_id = || state.images.values().find(|image| image.id == name);
        Ok(state.images.get(name).or_else(by_id).cloned())
    }

    async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        self.begin("images", "").await?;
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
        self.finish().await;
        Ok(id)
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.begin("remove_image", id).await?;
        self.state().images.retain(|_, image| image.id != id);
        self.finish().await;
        Ok(())
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        _limit: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let name = self.with_container(id, |made| made.container.name.clone())?;
        self.begin("exec_sync", &format!("{name} {}", command.join(" ")))
            .await?;
        Ok(self.state().answers.get(&name).cloned().unwrap_or_default())
    }

    async fn exec(&self, _id: &ContainerId, _spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        Err(RuntimeError::Unsupported("exec in memory".to_owned()))
    }

    async fn attach(&self, _id: &ContainerId, _spec: &ExecSpec) -> Result<Attached, RuntimeError> {
        Err(RuntimeError::Unsupported("attach in memory".to_owned()))
    }

    async fn connect(&self, _id: &SandboxId, _port: u16) -> Result<Box<dyn PortStream>, RuntimeError> {
        Err(RuntimeError::Unsupported("ports in memory".to_owned()))
    }

    async fn logs(
        &self,
        id: &ContainerId,
        _options: &LogOptions,
    ) -> Result<BoxStream<'static, Result<LogLine, RuntimeError>>, RuntimeError> {
        let name = self.with_container(id, |made| made.container.name.clone())?;
        self.begin("logs", &name).await?;
        let lines = self.state().written.get(&name).cloned().unwrap_or_default();
        Ok(stream::iter(lines.into_iter().map(Ok)).boxed())
    }

    async fn rotate_logs(&self, _most: u64, _keep: usize) -> Result<(), RuntimeError> {
        self.begin("rotate_logs", "").await
    }

    async fn usage(&self) -> Result<Vec<ContainerUsage>, RuntimeError> {
        self.begin("usage", "").await?;
        let state = self.state();
        let running = state.containers.iter().filter(|made| made.container.is_running());
        let usage = running.map(|made| ContainerUsage {
            pod: made.container.pod.clone(),
            name: made.container.name.clone(),
            ..ContainerUsage::default()
        });
        Ok(usage.collect())
    }

    async fn image_filesystem(&self) -> Result<FilesystemUsage, RuntimeError> {
        self.begin("image_filesystem", "").await?;
        let used = self.state().images.values().map(|image| image.size).sum();
        Ok(FilesystemUsage {
            used,
            ..FilesystemUsage::default()
        })
    }
}

#[cfg(test)]
mod tests;
