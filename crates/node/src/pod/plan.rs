//! What is to be done for a pod that shall run, of what it asks for and what is there. Pure.
//!
//! Promises:
//! - A container that runs, is alive and is as its pod describes it is left alone, whoever started it.
//! - Init containers run one after the other, each to its end; sidecars among them stay, and the next one waits only until
//!   they have started. No other container begins before them.
//! - Where nothing is left to be run, the sandbox and all in it are ended.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};

use super::{
    resize::Figures,
    spec::{Remembered, hash},
    status::{
        Seen,
        restart::{self, is_sidecar},
    },
};
use crate::{
    probes::{Outcome, ProbeResults},
    runtime::{self, ContainerId, ContainerState, SandboxId, SandboxState},
};

/// What is known when a plan is made.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The pod, with the resources that this node has granted it.
    pub pod: &'a Pod,
    /// What is there of it, newest first.
    pub seen: &'a Seen,
    /// What its probes say.
    pub probes: &'a ProbeResults,
    /// The resources that its containers were last given, by name.
    pub actuated: &'a BTreeMap<String, ResourceRequirements>,
}

/// What is to be done, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// End all containers and all sandboxes.
    pub kill_pod: bool,
    /// End these containers.
    pub kill: Vec<Kill>,
    /// Remove these containers, and end first those that run: the pod begins anew in its sandbox.
    pub reset: Vec<Reset>,
    /// Make a sandbox.
    pub sandbox: Option<NewSandbox>,
    /// The sandbox that is used, if there is a good one.
    pub in_sandbox: Option<SandboxId>,
    /// Give these containers other resources.
    pub update: Vec<(ContainerId, String)>,
    /// Start these ephemeral containers, by their place in the pod.
    pub ephemeral: Vec<usize>,
    /// Start these init containers.
    pub init: Vec<usize>,
    /// Start these containers.
    pub regular: Vec<usize>,
}

/// A sandbox that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewSandbox {
    /// How many there were before.
    pub attempt: u32,
    /// Whether there was one that is no good any more.
    pub replaces: bool,
}

/// A container that is to be ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kill {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// What users are told.
    pub message: String,
    /// Why.
    pub reason: Why,
}

/// A container that is to be removed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reset {
    /// Which.
    pub id: ContainerId,
    /// Its name.
    pub name: String,
    /// Whether it has to be ended first.
    pub kill: bool,
}

/// Why a container is ended: some reasons have a grace time of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its probe of liveness failed.
    Liveness,
    /// Its probe of the start failed.
    Startup,
    /// Anything else.
    Other,
}

/// The plan for a pod whose end nobody has decided.
pub(super) fn plan(view: &View<'_>, restarts_all: bool) -> Plan {
    let no_spec = PodSpec::default();
    let spec = view.pod.spec.as_ref().unwrap_or(&no_spec);
    let mut plan = Plan::default();
    if restarts_all {
        plan.in_sandbox = view.seen.sandboxes.first().map(|sandbox| sandbox.id.clone());
        plan.reset = reset(spec, view.seen);
        return plan;
    }
    match sandbox(spec, view.seen) {
        Ok(id) => plan.in_sandbox = Some(id),
        Err(new) => {
            begin_anew(spec, view.seen, new, &mut plan);
            return plan;
        }
    }
    for (at, ephemeral) in spec.ephemeral_containers.iter().flatten().enumerate() {
        if view.seen.newest(&ephemeral.name).is_none() {
            plan.ephemeral.push(at);
        }
    }
    let initialized = init_containers(spec, view, &mut plan);
    if !plan.kill_pod && initialized {
        regular_containers(spec, view, &mut plan);
    }
    plan
}

/// The sandbox that containers are made in, or how a new one is made.
fn sandbox(spec: &PodSpec, seen: &Seen) -> Result<SandboxId, NewSandbox> {
    let Some(newest) = seen.sandboxes.first() else {
        let attempt = 0;
        return Err(NewSandbox {
            attempt,
            replaces: false,
        });
    };
    let ready = seen
        .sandboxes
        .iter()
        .filter(|sandbox| sandbox.state == SandboxState::Ready);
    let hosts = spec.host_network == Some(true);
    let is_good =
        ready.count() == 1 && newest.state == SandboxState::Ready && (hosts || !newest.addresses.is_empty());
    if is_good {
        return Ok(newest.id.clone());
    }
    Err(NewSandbox {
        attempt: newest.attempt + 1,
        replaces: true,
    })
}

/// Without a good sandbox: everything is ended, and begins again from the first init container on.
fn begin_anew(spec: &PodSpec, seen: &Seen, new: NewSandbox, plan: &mut Plan) {
    plan.kill_pod = true;
    let never = spec.restart_policy.as_deref() == Some("Never");
    if never && new.attempt != 0 && !seen.containers.is_empty() {
        return;
    }
    let is_over = |container: &Container| {
        policy(container, spec) == "OnFailure" && seen.newest(&container.name).is_some_and(succeeded)
    };
    let containers = spec.containers.iter().enumerate();
    let to_start: Vec<_> = containers
        .filter(|(_, container)| !is_over(container))
        .map(|(at, _)| at)
        .collect();
    let was_initialized = spec
        .containers
        .iter()
        .filter_map(|container| seen.newest(&container.name))
        .any(|container| container.state != ContainerState::Unknown);
    if to_start.is_empty() && was_initialized {
        return;
    }
    plan.sandbox = Some(new);
    if spec.init_containers.as_ref().is_some_and(|init| !init.is_empty()) {
        plan.init = vec![0];
    } else {
        plan.regular = to_start;
    }
}

/// What is to be done for init containers; whether the others may begin.
fn init_containers(spec: &PodSpec, view: &View<'_>, plan: &mut Plan) -> bool {
    let init: &[Container] = spec.init_containers.as_deref().unwrap_or_default();
    if init.is_empty() {
        return true;
    }
    let current = plan.in_sandbox.clone();
    let active = |name: &str| {
        let mut all = view.seen.containers.iter();
        all.find(|there| there.name == name && Some(&there.sandbox) == current.as_ref())
    };
    // That one of the others was begun in this sandbox says that all init containers are over, even if the runtime has
    // forgotten them.
    let mut initialized = spec
        .containers
        .iter()
        .any(|container| active(&container.name).is_some_and(|there| there.state != ContainerState::Unknown));
    let mut later_was_seen = initialized;
    // From the last one back: those before the last that is there are over, whether they are still there or not.
    for (at, container) in init.iter().enumerate().rev() {
        let sidecar = is_sidecar(container);
        let Some(there) = active(&container.name) else {
            if later_was_seen && sidecar {
                plan.init.push(at);
            }
            continue;
        };
        if later_was_seen && !sidecar {
            continue;
        }
        let is_last = at + 1 == init.len();
        match &there.state {
            ContainerState::Created => plan.init.push(at),
            ContainerState::Running { .. } if sidecar => {
                running_sidecar(
                    container,
                    at,
                    there,
                    view,
                    &mut later_was_seen,
                    is_last,
                    &mut initialized,
                    plan,
                );
            }
            ContainerState::Running { .. } => {
                resize(container, there, view, plan);
            }
            ContainerState::Exited(_) if sidecar => plan.init.push(at),
            ContainerState::Exited(exit) if exit.code == 0 => {
                if is_last {
                    initialized = true;
                } else {
                    plan.init.push(at + 1);
                }
            }
            ContainerState::Exited(exit) => {
                if !restarts(container, spec, view.pod, exit.code) {
                    return give_up(plan);
                }
                plan.init.push(at);
            }
            ContainerState::Unknown => {
                if !sidecar && policy(container, spec) == "Never" {
                    return give_up(plan);
                }
                let message = "Init container is in \"unknown\" state, try killing it before restart";
                plan.kill.push(kill(there, message.to_owned(), Why::Other));
                plan.init.push(at);
            }
        }
        later_was_seen = true;
    }
    if !later_was_seen {
        plan.init.push(0);
    }
    plan.init.reverse();
    initialized
}

/// A failed init container that is not begun again ends the pod.
fn give_up(plan: &mut Plan) -> bool {
    plan.kill_pod = true;
    plan.init.clear();
    false
}

#[expect(
    clippy::too_many_arguments,
    reason = "the walk over init containers, one step of it named"
)]
fn running_sidecar(
    container: &Container,
    at: usize,
    there: &runtime::Container,
    view: &View<'_>,
    later_was_seen: &mut bool,
    is_last: bool,
    initialized: &mut bool,
    plan: &mut Plan,
) {
    let name = &container.name;
    let started = view.probes.startup(&there.id);
    if container.startup_probe.is_some() && started != Some(Outcome::Success) {
        if started == Some(Outcome::Failure) {
            let message = format!("Init container {name} failed startup probe");
            plan.kill.push(kill(there, message, Why::Startup));
            plan.init.push(at);
        }
        return;
    }
    if is_last {
        *initialized = true;
    } else if !*later_was_seen {
        plan.init.push(at + 1);
    }
    if has_changed(container, there) {
        let message = format!("Init container {name} definition changed");
        plan.kill.push(kill(there, message, Why::Other));
        plan.init.push(at);
    } else if container.liveness_probe.is_some() && view.probes.liveness(&there.id) == Some(Outcome::Failure)
    {
        let message = format!("Init container {name} failed liveness probe");
        plan.kill.push(kill(there, message, Why::Liveness));
        plan.init.push(at);
    } else if resize(container, there, view, plan) == Resized::ByRestart {
        plan.init.push(at);
    }
}

fn regular_containers(spec: &PodSpec, view: &View<'_>, plan: &mut Plan) {
    let mut kept = 0;
    for (at, container) in spec.containers.iter().enumerate() {
        let Some(there) = view.seen.newest(&container.name) else {
            if view.pod.metadata.deletion_timestamp.is_none() {
                plan.regular.push(at);
            }
            continue;
        };
        match &there.state {
            ContainerState::Running { .. } => {}
            ContainerState::Exited(exit) => {
                if restarts(container, spec, view.pod, exit.code) {
                    plan.regular.push(at);
                }
                continue;
            }
            ContainerState::Created => {
                plan.regular.push(at);
                continue;
            }
            ContainerState::Unknown => {
                let message = "Container is in \"unknown\" state, try killing it before restart";
                plan.kill.push(kill(there, message.to_owned(), Why::Other));
                plan.regular.push(at);
                continue;
            }
        }
        let name = &container.name;
        let mut restart = policy(container, spec) != "Never";
        let (message, reason) = if has_changed(container, there) {
            // Whatever the policy says: it is another container now.
            restart = true;
            (format!("Container {name} definition changed"), Why::Other)
        } else if view.probes.liveness(&there.id) == Some(Outcome::Failure) {
            (format!("Container {name} failed liveness probe"), Why::Liveness)
        } else if view.probes.startup(&there.id) == Some(Outcome::Failure) {
            (format!("Container {name} failed startup probe"), Why::Startup)
        } else if resize(container, there, view, plan) == Resized::ByRestart {
            plan.regular.push(at);
            continue;
        } else {
            kept += 1;
            continue;
        };
        let message = if restart {
            plan.regular.push(at);
            format!("{message}, will be restarted")
        } else {
            message
        };
        plan.kill.push(kill(there, message, reason));
    }
    if kept == 0 && plan.regular.is_empty() {
        plan.kill_pod = true;
        // Sidecars do not keep a pod alive.
        plan.init.clear();
    }
}

fn restarts(container: &Container, spec: &PodSpec, pod: &Pod, code: i32) -> bool {
    pod.metadata.deletion_timestamp.is_none() && restart::restarts(spec, container, code)
}

/// How a container gets other resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resized {
    No,
    InPlace,
    ByRestart,
}

fn resize(container: &Container, there: &runtime::Container, view: &View<'_>, plan: &mut Plan) -> Resized {
    let wanted = Figures::of(container);
    let given = view.actuated.get(&container.name).map(Figures::of_resources);
    let Some(has) = given.filter(|has| *has != wanted) else {
        return Resized::No;
    };
    if wanted.needs_restart(&has, container) {
        let message = format!("Container {} resize requires restart", container.name);
        plan.kill.push(kill(there, message, Why::Other));
        return Resized::ByRestart;
    }
    plan.update.push((there.id.clone(), container.name.clone()));
    Resized::InPlace
}

/// All containers, those that ended and asked for it last: what is removed halfway is found and gone on with.
fn reset(spec: &PodSpec, seen: &Seen) -> Vec<Reset> {
    let init = spec.init_containers.iter().flatten();
    let (mut targets, mut sources) = (Vec::new(), Vec::new());
    for container in spec.containers.iter().chain(init) {
        for there in seen
            .containers
            .iter()
            .filter(|there| there.name == container.name)
        {
            let reset = |kill| Reset {
                id: there.id.clone(),
                name: there.name.clone(),
                kill,
            };
            match &there.state {
                ContainerState::Exited(_) if asks_for_all(container, there) => sources.push(reset(false)),
                ContainerState::Exited(_) => targets.push(reset(false)),
                _ => targets.push(reset(true)),
            }
        }
    }
    targets.append(&mut sources);
    targets
}

/// Whether it is the one whose end begins all containers again.
fn asks_for_all(container: &Container, there: &runtime::Container) -> bool {
    let only = PodSpec {
        containers: vec![container.clone()],
        ..PodSpec::default()
    };
    let seen = Seen::new(Vec::new(), vec![there.clone()]);
    restart::restarts_all(&only, &seen, &PodStatus::default())
}

fn kill(there: &runtime::Container, message: String, reason: Why) -> Kill {
    Kill {
        id: there.id.clone(),
        name: there.name.clone(),
        message,
        reason,
    }
}

/// The container's own policy, or the pod's. For what we end ourselves only this counts: there is no exit code for its rules.
fn policy<'a>(container: &'a Container, spec: &'a PodSpec) -> &'a str {
    let own = container.restart_policy.as_deref();
    own.or(spec.restart_policy.as_deref()).unwrap_or("Always")
}

/// Whether the pod wants another one than was made.
fn has_changed(container: &Container, there: &runtime::Container) -> bool {
    Remembered::of(&there.annotations)
        .hash
        .is_some_and(|made| made != hash(container))
}

fn succeeded(container: &runtime::Container) -> bool {
    matches!(&container.state, ContainerState::Exited(exit) if exit.code == 0)
}
