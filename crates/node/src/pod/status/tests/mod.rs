//! Statuses computed from runtime states.

#![expect(clippy::needless_pass_by_value, reason = "callers pass JSON literals")]

mod conditions;
mod containers;
mod invariants;
mod phases;
mod termination;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus},
    jiff::Timestamp,
};
use serde_json::{Value, json};

use super::{
    PodSnapshot, PodWorkerState, StatusInput, TerminationCause, WaitingReason, generate_api_pod_status,
};
use crate::{
    NodeFacts, PodIdentity,
    probes::ProbeResults,
    runtime::{Container, ContainerExit, ContainerId, ContainerState, Sandbox, SandboxId, SandboxState},
};

/// Input of a status computation.
struct StatusFixture {
    pod: Pod,
    previous: Option<PodStatus>,
    snapshot: PodSnapshot,
    probes: ProbeResults,
    waiting: BTreeMap<String, WaitingReason>,
    messages: BTreeMap<ContainerId, String>,
    facts: NodeFacts,
    worker_state: PodWorkerState,
    termination_cause: Option<TerminationCause>,
    now: Timestamp,
}

/// Seconds after an arbitrary start.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// A pod with that spec.
fn fixture(spec: Value) -> StatusFixture {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 3},
        "spec": spec,
    });
    StatusFixture {
        pod: serde_json::from_value(pod).unwrap(),
        previous: None,
        snapshot: PodSnapshot::default(),
        probes: ProbeResults::new(at(0)),
        waiting: BTreeMap::new(),
        messages: BTreeMap::new(),
        facts: NodeFacts {
            addresses: vec!["192.168.0.9".parse().unwrap()],
            ..NodeFacts::default()
        },
        worker_state: PodWorkerState::Syncing,
        termination_cause: None,
        now: at(1000),
    }
}

/// A pod with one container for each name.
fn plain(names: &[&str]) -> StatusFixture {
    let containers: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "image": "busybox"}))
        .collect();
    fixture(json!({"containers": containers}))
}

impl StatusFixture {
    /// Adds a ready sandbox.
    fn sandbox(mut self) -> Self {
        self.snapshot
            .sandboxes
            .insert(0, sandbox("s1", SandboxState::Ready));
        self
    }

    /// Adds a container, which is the newest.
    fn with(mut self, name: &str, attempt: u32, state: ContainerState) -> Self {
        self.snapshot
            .containers
            .insert(0, container(name, attempt, state));
        self
    }

    /// Sets the status in the API, as after a start of the agent.
    fn with_api_status(mut self, status: Value) -> Self {
        self.pod.status = Some(serde_json::from_value(status).unwrap());
        self
    }

    fn status(&self) -> PodStatus {
        let actuated = BTreeMap::new();
        generate_api_pod_status(&StatusInput {
            pod: &self.pod,
            previous: self.previous.as_ref(),
            snapshot: &self.snapshot,
            probes: &self.probes,
            waiting: &self.waiting,
            messages: &self.messages,
            actuated: &actuated,
            resize: (None, None),
            runtime: "docker",
            recursive_read_only: true,
            facts: &self.facts,
            worker_state: self.worker_state,
            termination_cause: self.termination_cause.as_ref(),
            now: self.now,
        })
    }

    fn phase(&self) -> String {
        self.status().phase.unwrap()
    }
}

fn sandbox(id: &str, state: SandboxState) -> Sandbox {
    Sandbox {
        id: SandboxId(id.to_owned()),
        pod: PodIdentity::default(),
        attempt: 0,
        state,
        created: at(1),
        addresses: vec!["10.1.2.3".parse().unwrap()],
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

fn container(name: &str, attempt: u32, state: ContainerState) -> Container {
    Container {
        id: ContainerId(format!("{name}-{attempt}")),
        sandbox: SandboxId("s1".to_owned()),
        pod: PodIdentity::default(),
        name: name.to_owned(),
        attempt,
        image: "busybox:latest".to_owned(),
        image_id: "sha256:1".to_owned(),
        created: at(i64::from(attempt)),
        state,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    }
}

fn running() -> ContainerState {
    ContainerState::Running { started: at(10) }
}

fn exited(code: i32) -> ContainerState {
    let reason = if code == 0 { "Completed" } else { "Error" };
    ContainerState::Exited(ContainerExit {
        code,
        signal: None,
        started: Some(at(10)),
        finished: at(20),
        reason: reason.to_owned(),
        message: String::new(),
    })
}

#[expect(clippy::ref_option, reason = "fields of PodStatus have this type")]
fn one<'a>(statuses: &'a Option<Vec<ContainerStatus>>, name: &str) -> &'a ContainerStatus {
    statuses
        .iter()
        .flatten()
        .find(|status| status.name == name)
        .unwrap()
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> &'a PodCondition {
    super::find_condition(status.conditions.as_ref(), kind).unwrap()
}

/// A condition as `Status Reason message`.
fn describe_condition(status: &PodStatus, kind: &str) -> String {
    let PodCondition {
        status,
        reason,
        message,
        ..
    } = condition(status, kind);
    let parts = [Some(status), reason.as_ref(), message.as_ref()];
    parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
}
