//! Statuses of pods, by what is there of them.

#![expect(
    clippy::needless_pass_by_value,
    reason = "specs are written where they are used"
)]

mod conditions;
mod containers;
mod ends;
mod phases;
mod promises;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus},
    jiff::Timestamp,
};
use serde_json::{Value, json};

use super::{Course, End, Input, Seen, Waiting, status};
use crate::{
    Facts, PodIdentity,
    probes::ProbeResults,
    runtime::{Container, ContainerId, ContainerState, Exit, Sandbox, SandboxId, SandboxState},
};

/// A pod, and all that its status is made of.
struct World {
    pod: Pod,
    previous: Option<PodStatus>,
    seen: Seen,
    probes: ProbeResults,
    waiting: BTreeMap<String, Waiting>,
    messages: BTreeMap<ContainerId, String>,
    facts: Facts,
    course: Course,
    end: Option<End>,
    now: Timestamp,
}

/// A time that many seconds after all began.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

/// A pod with that spec.
fn world(spec: Value) -> World {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "generation": 3},
        "spec": spec,
    });
    World {
        pod: serde_json::from_value(pod).unwrap(),
        previous: None,
        seen: Seen::default(),
        probes: ProbeResults::new(at(0)),
        waiting: BTreeMap::new(),
        messages: BTreeMap::new(),
        facts: Facts {
            addresses: vec!["192.168.0.9".parse().unwrap()],
            ..Facts::default()
        },
        course: Course::Living,
        end: None,
        now: at(1000),
    }
}

/// With one container `a`, or those of the names.
fn plain(names: &[&str]) -> World {
    let containers: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "image": "busybox"}))
        .collect();
    world(json!({"containers": containers}))
}

impl World {
    /// With a sandbox that is ready.
    fn sandbox(mut self) -> Self {
        self.seen.sandboxes.insert(0, sandbox("s1", SandboxState::Ready));
        self
    }

    /// With one more container, which is the newest.
    fn with(mut self, name: &str, attempt: u32, state: ContainerState) -> Self {
        self.seen.containers.insert(0, container(name, attempt, state));
        self
    }

    /// As it is when the API says that of it, and the agent began just now.
    fn told(mut self, status: Value) -> Self {
        self.pod.status = Some(serde_json::from_value(status).unwrap());
        self
    }

    fn status(&self) -> PodStatus {
        let actuated = BTreeMap::new();
        status(&Input {
            pod: &self.pod,
            previous: self.previous.as_ref(),
            seen: &self.seen,
            probes: &self.probes,
            waiting: &self.waiting,
            messages: &self.messages,
            actuated: &actuated,
            resize: (None, None),
            runtime: "docker",
            recursive_read_only: true,
            facts: &self.facts,
            course: self.course,
            end: self.end.as_ref(),
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
    ContainerState::Exited(Exit {
        code,
        signal: None,
        started: Some(at(10)),
        finished: at(20),
        reason: reason.to_owned(),
        message: String::new(),
    })
}

#[expect(clippy::ref_option, reason = "fields of statuses are just that")]
fn one<'a>(statuses: &'a Option<Vec<ContainerStatus>>, name: &str) -> &'a ContainerStatus {
    statuses
        .iter()
        .flatten()
        .find(|status| status.name == name)
        .unwrap()
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> &'a PodCondition {
    super::condition(status.conditions.as_ref(), kind).unwrap()
}

/// `Type=Status Reason message`, for each condition.
fn said(status: &PodStatus, kind: &str) -> String {
    let PodCondition {
        status,
        reason,
        message,
        ..
    } = condition(status, kind);
    let parts = [Some(status), reason.as_ref(), message.as_ref()];
    parts.into_iter().flatten().cloned().collect::<Vec<_>>().join(" ")
}
