//! Ends containers, and pods with all that is theirs.
//!
//! Promises:
//! - What a container has to be done first (`preStop`) is inside its grace time, and so is waiting for its turn.
//! - Sidecars end after the containers they serve, the last one first.
//! - A container always gets a moment to end by itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use k8s_openapi::api::core::v1::{Container, Pod};
use kubecontroller::events::EventType;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    hooks::{self, Hooked},
    plan::Why,
    spec::{self, Remembered},
    status::{Seen, restart},
    told::Teller,
};
use crate::{
    images::limited,
    runtime::{self, ContainerState, Runtime, RuntimeError, SandboxState},
};

/// What containers get in any case.
const LEAST: Duration = Duration::from_secs(2);

/// Ends what belongs to a pod.
pub(super) struct Stopper<'a> {
    /// What runs it.
    pub runtime: &'a dyn Runtime,
    /// The pod; `None` if nobody knows it any more.
    pub pod: Option<&'a Pod>,
    /// Its addresses, for hooks.
    pub addresses: &'a [IpAddr],
    /// Who is told.
    pub teller: &'a Teller,
    /// What a call may take beyond the grace time.
    pub limit: Duration,
}

/// Whose end a container waits for.
struct Turns {
    /// The names that have to end before the container of this name.
    before: BTreeMap<String, BTreeSet<String>>,
    /// The names of those that have ended.
    ended: watch::Sender<BTreeSet<String>>,
}

// --- Stopper ---

impl Stopper<'_> {
    /// Ends everything: the containers, each within its grace time (or `grace`), then the sandboxes.
    pub(super) async fn pod(&self, seen: &Seen, grace: Option<Duration>) -> Result<(), RuntimeError> {
        let running: Vec<_> = seen
            .containers
            .iter()
            .filter(|there| {
                matches!(
                    there.state,
                    ContainerState::Running { .. } | ContainerState::Unknown
                )
            })
            .collect();
        let names = running.iter().map(|there| there.name.clone()).collect();
        let turns = self.pod.map(|pod| Turns::of(pod, &names));
        let mut ends: Vec<BoxFuture<'_, Result<(), RuntimeError>>> = Vec::new();
        for there in running {
            ends.push(Box::pin(self.in_its_turn(there, grace, turns.as_ref())));
        }
        join_all(ends).await.into_iter().collect::<Result<(), _>>()?;
        for sandbox in &seen.sandboxes {
            // One that has ended may still have a network: it is stopped again unless it is an old one.
            let is_newest = seen
                .sandboxes
                .first()
                .is_some_and(|newest| newest.id == sandbox.id);
            if sandbox.state == SandboxState::Ready || is_newest {
                limited(
                    self.limit,
                    "StopPodSandbox",
                    self.runtime.stop_sandbox(&sandbox.id),
                )
                .await?;
            }
        }
        Ok(())
    }

    /// Ends one container of all, and tells those that wait for it.
    async fn in_its_turn(
        &self,
        there: &runtime::Container,
        grace: Option<Duration>,
        turns: Option<&Turns>,
    ) -> Result<(), RuntimeError> {
        let ended = self
            .container_in_turn(there, None, Why::Other, grace, turns)
            .await;
        if let Some(turns) = turns {
            turns.ended.send_modify(|ended| {
                ended.insert(there.name.clone());
            });
        }
        ended
    }

    /// Ends one container.
    pub(super) async fn container(
        &self,
        there: &runtime::Container,
        message: Option<&str>,
        why: Why,
        grace: Option<Duration>,
    ) -> Result<(), RuntimeError> {
        self.container_in_turn(there, message, why, grace, None).await
    }

    async fn container_in_turn(
        &self,
        there: &runtime::Container,
        message: Option<&str>,
        why: Why,
        grace: Option<Duration>,
        turns: Option<&Turns>,
    ) -> Result<(), RuntimeError> {
        let known = self.pod.and_then(|pod| find(pod, &there.name));
        let spec = known.unwrap_or_else(|| of_marks(there));
        let mut left = grace.unwrap_or_else(|| self.grace(there, &spec, why));
        let orphan = orphan(there);
        let pod = self.pod.unwrap_or(&orphan);
        let stopping = format!("Stopping container {}", there.name);
        let message = message.unwrap_or(&stopping);
        self.teller
            .container(pod, &spec, Some(&there.id), EventType::Normal, "Killing", message);

        if let Some(hook) = spec.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref())
            && !left.is_zero()
        {
            let begun = Instant::now();
            let hooked = Hooked {
                runtime: self.runtime,
                pod,
                container: &spec,
                id: &there.id,
                addresses: self.addresses,
            };
            // What is not done when the time is over goes on with the container, and ends with it.
            if let Ok(Err(trouble)) = timeout(left, hooks::run(&hooked, hook, left)).await {
                tracing::debug!(pod = %there.pod, container = there.name, trouble, "preStop failed");
                let id = Some(&there.id);
                self.teller.container(
                    pod,
                    &spec,
                    id,
                    EventType::Warning,
                    "FailedPreStopHook",
                    "PreStopHook failed",
                );
            }
            left = left.saturating_sub(whole_seconds(begun.elapsed()));
        }
        if let Some(turns) = turns
            && !left.is_zero()
        {
            let begun = Instant::now();
            turns.wait(&there.name, left).await;
            left = left.saturating_sub(whole_seconds(begun.elapsed()));
        }
        let left = left.max(LEAST);
        let stop = self.runtime.stop_container(&there.id, left);
        match limited(left + self.limit, "StopContainer", stop).await {
            Err(RuntimeError::NotFound(_)) => Ok(()),
            stopped => stopped,
        }
    }

    /// How long a container has to end.
    fn grace(&self, there: &runtime::Container, spec: &Container, why: Why) -> Duration {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let Some(pod) = self.pod else {
            let marks = Remembered::of(&there.annotations);
            return marks
                .deletion_grace
                .or(marks.termination_grace)
                .map_or(LEAST, seconds);
        };
        if let Some(deleted) = pod.metadata.deletion_grace_period_seconds {
            return seconds(deleted);
        }
        let probe = match why {
            Why::Liveness => spec.liveness_probe.as_ref(),
            Why::Startup => spec.startup_probe.as_ref(),
            Why::Other => None,
        };
        let of_probe = probe.and_then(|probe| probe.termination_grace_period_seconds);
        let of_pod = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        of_pod.map_or(LEAST, |of_pod| seconds(of_probe.unwrap_or(of_pod)))
    }
}

// --- Turns ---

impl Turns {
    fn of(pod: &Pod, running: &BTreeSet<String>) -> Self {
        let mut before = BTreeMap::new();
        let spec = pod.spec.as_ref();
        let regular = spec.iter().flat_map(|spec| &spec.containers);
        let mut later: BTreeSet<String> = regular
            .map(|container| container.name.clone())
            .filter(|name| running.contains(name))
            .collect();
        let init = spec
            .iter()
            .flat_map(|spec| spec.init_containers.iter().flatten().rev());
        for sidecar in init.filter(|container| restart::is_sidecar(container)) {
            before.insert(sidecar.name.clone(), later.clone());
            if running.contains(&sidecar.name) {
                later.insert(sidecar.name.clone());
            }
        }
        Turns {
            before,
            ended: watch::Sender::default(),
        }
    }

    async fn wait(&self, name: &str, at_most: Duration) {
        if let Some(before) = self.before.get(name) {
            let mut ended = self.ended.subscribe();
            // Out of time: it is everybody's turn.
            let _ = timeout(at_most, ended.wait_for(|ended| before.is_subset(ended))).await;
        }
    }
}

/// What is left of the grace time is counted in whole seconds: less than one is not taken off.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
}

/// A container of which only what was written on it is known.
fn of_marks(there: &runtime::Container) -> Container {
    let marks = Remembered::of(&there.annotations);
    Container {
        name: there.name.clone(),
        lifecycle: Some(k8s_openapi::api::core::v1::Lifecycle {
            pre_stop: marks.pre_stop,
            ..Default::default()
        }),
        ..Container::default()
    }
}

/// A pod of which only its containers are left.
pub(super) fn orphan(there: &runtime::Container) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(there.pod.namespace.clone());
    pod.metadata.name = Some(there.pod.name.clone());
    pod.metadata.uid = Some(there.pod.uid.clone());
    pod
}

/// The container of a name, of whichever kind.
pub(super) fn find(pod: &Pod, name: &str) -> Option<Container> {
    let all = pod.spec.as_ref()?;
    let mut usual = all.containers.iter().chain(all.init_containers.iter().flatten());
    let found = usual.find(|container| container.name == name).cloned();
    found.or_else(|| {
        let mut ephemeral = all.ephemeral_containers.iter().flatten();
        ephemeral
            .find(|container| container.name == name)
            .map(spec::ephemeral)
    })
}
