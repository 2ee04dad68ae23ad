//! Does what a plan says, in order.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    jiff::Timestamp,
};
use kubecontroller::events::EventType as Tone;
use tokio::time::Instant;

use super::{
    backoff,
    plan::{NewSandbox, Plan, Why},
    spec::{self, Kind, hash, notes},
    start::{self, NotStarted, Starter, waiting},
    status::Seen,
    stop::Stopper,
    told,
    worker::{Again, Shared},
};
use crate::{
    Facts,
    images::{keyring::Keyring, limited},
    runtime::{ContainerId, ContainerState, Runtime, RuntimeError, SandboxId, SandboxSpec, SandboxState},
};

/// After something failed that nobody says more about.
const AGAIN: Duration = Duration::from_secs(10);
/// After a pull that failed.
const SOON: Duration = Duration::from_secs(1);
/// While what is mounted cannot be had.
const VOLUMES_AGAIN: Duration = Duration::from_secs(3);

/// What a pod is worked on with.
pub(super) struct Work<'a> {
    /// What workers share.
    pub shared: &'a Shared,
    /// What runs containers.
    pub runtime: Arc<dyn Runtime>,
    /// The pod, with the resources it was granted.
    pub pod: Arc<Pod>,
    /// What is there of it.
    pub seen: Arc<Seen>,
    /// What is known of the node.
    pub facts: Arc<Facts>,
}

/// What came of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// Whether something is not as it was.
    pub did: bool,
    /// When something is to be tried again.
    pub again: Option<Timestamp>,
}

/// A sandbox that containers are started in.
struct Place {
    id: SandboxId,
    spec: SandboxSpec,
    addresses: Vec<IpAddr>,
}

// --- Done ---

impl Done {
    /// When the pod is looked at again.
    pub(super) fn next(&self, now: Timestamp) -> Again {
        if self.did {
            return Some(Duration::ZERO);
        }
        self.again.map(|again| backoff::until(now, again))
    }

    fn again_at(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
    }
}

// --- Work ---

impl Work<'_> {
    /// Does what a plan says, as far as it goes.
    pub(super) async fn act(&self, plan: Plan) -> Done {
        let mut done = Done::default();
        if let Err(error) = self.end(&plan, &mut done).await {
            tracing::warn!(pod = told::name(&self.pod), %error, "cannot end containers");
            done.again_at(self.later(AGAIN));
            return done;
        }
        if plan.kill_pod && plan.sandbox.is_none() {
            return done;
        }
        let starts = !(plan.ephemeral.is_empty() && plan.init.is_empty() && plan.regular.is_empty());
        if !self.refresh(starts || plan.sandbox.is_some(), &mut done).await {
            return done;
        }
        let Some(place) = self.place(&plan, &mut done).await else {
            return done;
        };
        self.update(&plan, &mut done).await;
        if starts {
            Box::pin(self.start(&plan, &place, &mut done)).await;
        }
        self.prune(&mut done).await;
        done
    }

    /// Ends what has to go before anything is started.
    async fn end(&self, plan: &Plan, done: &mut Done) -> Result<(), RuntimeError> {
        let stopper = self.stopper();
        let limit = self.shared.parts.settings.stop_limit;
        if plan.kill_pod {
            if plan.sandbox.is_some_and(|sandbox| sandbox.replaces) {
                let message = "Pod sandbox changed, it will be killed and re-created.";
                self.shared
                    .teller
                    .pod(&self.pod, Tone::Normal, "SandboxChanged", message);
            }
            let was_alive = self.seen.any_running() || self.seen.ready_sandboxes() > 0;
            stopper.pod(&self.seen, None).await?;
            done.did |= was_alive;
            if plan.sandbox.is_some() {
                // What began in the old sandbox is not over in the new one.
                for id in self.init_containers() {
                    limited(limit, "RemoveContainer", self.runtime.remove_container(&id)).await?;
                }
            }
            return Ok(());
        }
        for kill in &plan.kill {
            if let Some(there) = self.seen.containers.iter().find(|there| there.id == kill.id) {
                stopper
                    .container(there, Some(&kill.message), kill.reason, None)
                    .await?;
                done.did = true;
            }
        }
        for reset in &plan.reset {
            if let Some(there) = self.seen.containers.iter().find(|there| there.id == reset.id) {
                if reset.kill {
                    let at_once = Some(Duration::ZERO);
                    stopper
                        .container(there, Some("killing"), Why::Other, at_once)
                        .await?;
                }
                limited(limit, "RemoveContainer", self.runtime.remove_container(&there.id)).await?;
                done.did = true;
            }
        }
        Ok(())
    }

    /// All that is there of init containers.
    fn init_containers(&self) -> Vec<ContainerId> {
        let spec = self.pod.spec.as_ref();
        let init = spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let there = init.flat_map(|init| self.seen.all(&init.name));
        there.map(|there| there.id.clone()).collect()
    }

    /// Brings what is mounted up to date, if it is time or something is started. Whether the rest can go on.
    async fn refresh(&self, starts: bool, done: &mut Done) -> bool {
        let uid = self.uid();
        let every = self.shared.refresh_of(uid);
        let is_due = self.shared.known.read(uid, |entry| {
            entry.refreshed.is_none_or(|at| at.elapsed() >= every)
        });
        if !starts && is_due != Some(true) {
            return true;
        }
        self.shared.parts.sources.keep(&self.pod);
        let addresses = self.addresses();
        let prepared = self
            .shared
            .parts
            .volumes
            .prepare(&self.pod, &self.facts, &addresses)
            .await;
        if let Err(error) = prepared {
            self.shared
                .teller
                .pod(&self.pod, Tone::Warning, "FailedMount", error.to_string());
            done.again_at(self.later(VOLUMES_AGAIN));
            // What runs goes on with what it has.
            return !starts;
        }
        self.shared
            .known
            .change(uid, |entry| entry.refreshed = Some(Instant::now()));
        true
    }

    /// The sandbox to start containers in: the one that is there, or a new one.
    async fn place(&self, plan: &Plan, done: &mut Done) -> Option<Place> {
        let settings = &self.shared.parts.settings;
        let attempt = match (plan.sandbox, self.seen.sandboxes.first()) {
            (Some(NewSandbox { attempt, .. }), _) => attempt,
            (None, Some(there)) => there.attempt,
            (None, None) => 0,
        };
        let logs = settings.log_folder(&crate::PodIdentity::of(&self.pod));
        let spec = match spec::sandbox(&self.pod, &self.facts, attempt, &logs) {
            Ok(spec) => spec,
            Err(error) => return self.no_sandbox(&error, done),
        };
        if let Some(id) = plan.in_sandbox.clone() {
            let addresses = self.addresses();
            return Some(Place { id, spec, addresses });
        }
        for note in notes(&self.pod, &self.facts) {
            self.shared
                .teller
                .pod(&self.pod, Tone::Warning, note.reason, note.message);
        }
        // Before anything of the pod is there: who finds the folder knows that there may be more.
        if let Err(error) = std::fs::create_dir_all(self.folder()) {
            let message = format!("error making pod data directories: {error}");
            self.shared
                .teller
                .pod(&self.pod, Tone::Warning, "Failed", message);
            done.again_at(self.later(AGAIN));
            return None;
        }
        let making = start::sandbox(&self.shared.parts, &*self.runtime, &spec);
        let id = match self.shared.sandbox_gate.through(making).await {
            Ok(id) => id,
            Err(error) => return self.no_sandbox(&error, done),
        };
        done.did = true;
        let addresses = match self.addresses_of(&id).await {
            Ok(addresses) => addresses,
            Err(error) => {
                let message = format!("Unable to get pod sandbox status: {error}");
                self.shared
                    .teller
                    .pod(&self.pod, Tone::Warning, "FailedPodSandBoxStatus", message);
                return None;
            }
        };
        Some(Place { id, spec, addresses })
    }

    fn no_sandbox(&self, error: &dyn std::fmt::Display, done: &mut Done) -> Option<Place> {
        let message = format!("Failed to create pod sandbox: {error}");
        self.shared
            .teller
            .pod(&self.pod, Tone::Warning, "FailedCreatePodSandBox", message);
        done.did = false;
        done.again_at(self.later(AGAIN));
        None
    }

    /// The addresses of a sandbox that was just made.
    async fn addresses_of(&self, id: &SandboxId) -> Result<Vec<IpAddr>, RuntimeError> {
        if self.shares_network() {
            return Ok(self.facts.addresses.clone());
        }
        // Not by a look at everything: that waits for other pods that are being started.
        let limit = self.shared.parts.settings.start_limit;
        limited(limit, "PodSandboxStatus", self.runtime.addresses(id)).await
    }

    /// Gives containers other resources.
    async fn update(&self, plan: &Plan, done: &mut Done) {
        let limit = self.shared.parts.settings.start_limit;
        for (id, name) in &plan.update {
            let Some(container) = super::stop::find(&self.pod, name) else {
                continue;
            };
            let resources = spec::resources(&self.pod, &container, &self.facts);
            let update = self.runtime.update_resources(id, &resources);
            let error = match limited(limit, "UpdateContainerResources", update).await {
                Ok(()) => {
                    self.given(&container);
                    done.did = true;
                    String::new()
                }
                Err(error) => {
                    done.again_at(self.later(AGAIN));
                    error.to_string()
                }
            };
            self.shared
                .known
                .change(self.uid(), |entry| entry.resize_error = error);
        }
    }

    /// Notes what a container was given, for good.
    fn given(&self, container: &Container) {
        let resources = container.resources.clone().unwrap_or_default();
        let kept = self.shared.known.change(self.uid(), |entry| {
            entry.note_given(&container.name, resources);
            entry.kept.clone()
        });
        if let Some(Some(kept)) = kept
            && let Err(error) = kept.write(&self.folder())
        {
            tracing::warn!(pod = told::name(&self.pod), %error, "cannot keep what a container was given");
        }
    }

    /// Starts containers, those of a kind one after the other.
    async fn start(&self, plan: &Plan, place: &Place, done: &mut Done) {
        let (keyring, missing) = self.keyring().await;
        let folder = self.folder();
        let starter = Starter {
            parts: &self.shared.parts,
            teller: &self.shared.teller,
            images: &self.shared.images,
            gate: &self.shared.container_gate,
            runtime: &*self.runtime,
            pod: &self.pod,
            seen: &self.seen,
            facts: &self.facts,
            keyring: &keyring,
            folder: &folder,
            sandbox: &place.id,
            sandbox_spec: &place.spec,
            addresses: &place.addresses,
        };
        let Some(spec) = &self.pod.spec else {
            return;
        };
        let mut pull_failed = false;
        let ephemeral = spec.ephemeral_containers.as_deref().unwrap_or_default();
        for container in chosen(&plan.ephemeral, ephemeral) {
            let container = spec::ephemeral(container);
            pull_failed |=
                self.start_one(&starter, &container, Kind::Ephemeral, done).await == Started::NoImage;
        }
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for container in chosen(&plan.init, init) {
            let started = self.start_one(&starter, container, Kind::Init, done).await;
            pull_failed |= started == Started::NoImage;
            let is_sidecar = super::status::restart::is_sidecar(container);
            if started != Started::Yes && !is_sidecar {
                break;
            }
        }
        for container in chosen(&plan.regular, &spec.containers) {
            pull_failed |= self.start_one(&starter, container, Kind::Regular, done).await == Started::NoImage;
        }
        if pull_failed && !missing.is_empty() {
            let message = format!(
                "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
                missing.join(", ")
            );
            let reason = "FailedToRetrieveImagePullSecret";
            self.shared.teller.pod(&self.pod, Tone::Warning, reason, message);
        }
    }

    /// Starts a container, unless it has to wait.
    async fn start_one(
        &self,
        starter: &Starter<'_>,
        container: &Container,
        kind: Kind,
        done: &mut Done,
    ) -> Started {
        let uid = self.uid();
        let name = &container.name;
        let now = self.shared.parts.clock.now();
        if let Some(until) = self
            .shared
            .known
            .read(uid, |entry| entry.held.get(name).copied())
            .flatten()
            && until > now
        {
            done.again_at(until);
            return Started::No;
        }
        let started = match self.crash_wait(container, now) {
            Some(waits) => Err(waits),
            None => starter.start(container, kind).await,
        };
        match started {
            Ok(()) => {
                done.did = true;
                self.given(container);
                self.shared.known.change(uid, |entry| {
                    entry.waiting.remove(name);
                    entry.held.remove(name);
                });
                Started::Yes
            }
            Err(NotStarted { waiting, again }) => {
                let no_image = waiting.reason == "ErrImagePull";
                // Who says how long he waits is asked again soon for what he says then: that he waits.
                let says_so = waiting.reason.ends_with("BackOff");
                let until = match again {
                    Some(_) if !says_so => self.later(SOON),
                    Some(until) => until,
                    None => self.later(AGAIN),
                };
                done.again_at(until);
                self.shared.known.change(uid, |entry| {
                    entry.waiting.insert(name.clone(), waiting);
                    if !says_so {
                        entry.held.insert(name.clone(), until);
                    }
                });
                if no_image { Started::NoImage } else { Started::No }
            }
        }
    }

    /// Whether a container that failed waits, and if it does not, that it is tried now.
    fn crash_wait(&self, container: &Container, now: Timestamp) -> Option<NotStarted> {
        let mut all = self.seen.all(&container.name);
        let finished = all.find_map(|there| match &there.state {
            ContainerState::Exited(exit) => Some(exit.finished),
            _ => None,
        })?;
        let key = (self.uid().to_owned(), container.name.clone(), hash(container));
        let until = self.shared.crashes().until(&key, finished, now);
        let Some((until, time)) = until else {
            self.shared.crashes().lengthen(&key, finished, now);
            return None;
        };
        let (name, pod) = (&container.name, told::name(&self.pod));
        let message = format!("Back-off restarting failed container {name} in pod {pod}");
        self.shared
            .teller
            .container(&self.pod, container, None, Tone::Warning, "BackOff", &message);
        let time = backoff::text(time);
        let message = format!("back-off {time} restarting failed container={name} pod={pod}");
        Some(NotStarted {
            waiting: waiting("CrashLoopBackOff", message),
            again: Some(until),
        })
    }

    /// The secrets of registries that the pod names, and the names of those that are not there.
    async fn keyring(&self) -> (Keyring, Vec<String>) {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let spec = self.pod.spec.as_ref();
        let named = spec
            .and_then(|spec| spec.image_pull_secrets.as_deref())
            .unwrap_or_default();
        for named in named {
            if named.name.is_empty() {
                continue;
            }
            match self.shared.parts.sources.secret(namespace, &named.name).await {
                Ok(Some(secret)) => found.push(secret),
                Ok(None) | Err(_) => missing.push(named.name.clone()),
            }
        }
        (Keyring::of(found.iter().map(|secret| &**secret)), missing)
    }

    /// Removes dead containers but for the last one of each name, and sandboxes that nothing is in.
    async fn prune(&self, done: &mut Done) {
        if done.did {
            // After a look at what is there now.
            return;
        }
        let limit = self.shared.parts.settings.stop_limit;
        let leftovers = leftovers(&self.seen);
        for id in leftovers.containers {
            let removed = limited(limit, "RemoveContainer", self.runtime.remove_container(&id)).await;
            if let Err(error) = removed {
                tracing::debug!(container = %id, %error, "cannot remove a dead container");
            }
        }
        for id in leftovers.sandboxes {
            let removed = limited(limit, "RemovePodSandbox", self.runtime.remove_sandbox(&id)).await;
            if let Err(error) = removed {
                tracing::debug!(sandbox = %id, %error, "cannot remove a dead sandbox");
            }
        }
    }

    fn stopper(&self) -> Stopper<'_> {
        Stopper {
            runtime: &*self.runtime,
            pod: Some(&self.pod),
            addresses: self.seen.addresses(),
            teller: &self.shared.teller,
            limit: self.shared.parts.settings.stop_limit,
        }
    }

    /// The addresses of the pod, as far as it has any.
    fn addresses(&self) -> Vec<IpAddr> {
        if self.shares_network() {
            return self.facts.addresses.clone();
        }
        self.seen.addresses().to_vec()
    }

    fn shares_network(&self) -> bool {
        self.pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.host_network == Some(true))
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    fn folder(&self) -> PathBuf {
        self.shared.parts.settings.folder(self.uid())
    }

    fn later(&self, by: Duration) -> Timestamp {
        backoff::after(self.shared.parts.clock.now(), by)
    }
}

/// Those at these places.
fn chosen<'a, T>(places: &[usize], all: &'a [T]) -> Vec<&'a T> {
    places.iter().filter_map(|at| all.get(*at)).collect()
}

/// What came of starting a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Started {
    Yes,
    No,
    NoImage,
}

/// What of a pod is no use to anybody.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leftovers {
    /// Dead containers that are not the last of their name.
    pub containers: Vec<ContainerId>,
    /// Dead sandboxes that are not the last, and that nothing is left in.
    pub sandboxes: Vec<SandboxId>,
}

/// What of a pod that lives is no use to anybody.
pub(super) fn leftovers(seen: &Seen) -> Leftovers {
    let mut left = Leftovers::default();
    let mut kept = std::collections::BTreeSet::new();
    for there in &seen.containers {
        let is_dead = matches!(there.state, ContainerState::Exited(_));
        if is_dead && !kept.insert(&there.name) {
            left.containers.push(there.id.clone());
        }
    }
    for sandbox in seen
        .sandboxes
        .iter()
        .skip(1)
        .filter(|sandbox| sandbox.state == SandboxState::NotReady)
    {
        let mut inside = seen.containers.iter().filter(|there| there.sandbox == sandbox.id);
        if inside.all(|there| left.containers.contains(&there.id)) {
            left.sandboxes.push(sandbox.id.clone());
        }
    }
    left
}
