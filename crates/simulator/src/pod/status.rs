//! The status of a pod, as a kubelet would write it.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Map, Value, json};

use super::object::{Container, GATES_NOT_READY, Pod, Terminated};
use crate::condition::DesiredCondition;

/// What is to be seen of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// Its node knows it, and makes its containers.
    Creating,
    /// Its containers run.
    Running {
        since: Timestamp,
        restarts: u32,
        ready: bool,
        last: Option<Terminated>,
    },
    /// Its containers have ended too often, and wait.
    Crashed {
        restarts: u32,
        last: Terminated,
        wait: Duration,
    },
    /// Its containers have ended, and that was it.
    Over { ended: Terminated },
    /// It was there for longer than it may be.
    Overdue { ended: Terminated },
}

/// Where a pod is.
#[derive(Clone, Debug, Default)]
pub(super) struct PodAddresses {
    /// The address of its node.
    pub(super) host: Option<IpAddr>,
    /// Its own addresses, if they are new.
    pub(super) own: Vec<IpAddr>,
}

const NOT_READY: &str = "ContainersNotReady";
const NO_SANDBOX: &str = "PodSandboxNotReady";
const OVERDUE: &str = "Pod was active on the node longer than the specified deadline";

/// Why a pod is not ready though its containers are; `None` if nothing keeps it.
pub(super) fn gates_closed(pod: &Pod) -> Option<String> {
    let mut messages = Vec::new();
    for gate in &pod.spec.readiness_gates {
        let others = &pod.status.conditions.others;
        match others.iter().find(|(kind, _)| kind == gate) {
            Some((_, status)) if &**status == "True" => {}
            Some((_, status)) => messages.push(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {status}"
            )),
            None => messages.push(format!(
                "corresponding condition of pod readiness gate \"{gate}\" does not exist."
            )),
        }
    }
    (!messages.is_empty()).then(|| messages.join(", "))
}

// --- PodStage ---

impl PodStage {
    /// The change of the status that leads here. It holds only for the pod as it is known.
    pub(super) fn patch(self, pod: &Pod, addresses: &PodAddresses, now: Timestamp) -> Value {
        let began = pod.status.start_time.unwrap_or(now);
        let mut status = Map::new();
        let mut say = |name: &str, value: Value| status.insert(name.to_owned(), value);
        say("phase", self.phase().into());
        say("observedGeneration", pod.metadata.generation.into());
        say("conditions", self.conditions(pod, now).into());
        if pod.status.start_time.is_none() {
            say("startTime", json!(Time(began)));
        }
        if let Some(host) = addresses.host {
            say("hostIP", json!(host));
            say("hostIPs", json!([{"ip": host}]));
        }
        if let Some(first) = addresses.own.first() {
            say("podIP", json!(first));
            let all = addresses.own.iter().map(|ip| json!({"ip": ip}));
            say("podIPs", all.collect());
        }
        let spec = &pod.spec;
        let containers = spec
            .containers
            .iter()
            .map(|container| self.container(pod, container));
        say("containerStatuses", containers.collect());
        if !spec.init_containers.is_empty() {
            let init = spec.init_containers.iter();
            say(
                "initContainerStatuses",
                init.map(|container| self.init_container(pod, container, began))
                    .collect(),
            );
        }
        if let PodStage::Overdue { .. } = self {
            say("reason", "DeadlineExceeded".into());
            say("message", OVERDUE.into());
        }
        let metadata = &pod.metadata;
        json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": status})
    }

    fn phase(self) -> &'static str {
        match self {
            PodStage::Creating => "Pending",
            PodStage::Running { .. } | PodStage::Crashed { .. } => "Running",
            PodStage::Over { ended } if ended.exit_code == 0 => "Succeeded",
            PodStage::Over { .. } | PodStage::Overdue { .. } => "Failed",
        }
    }

    fn is_ready(self) -> bool {
        matches!(self, PodStage::Running { ready: true, .. })
    }

    fn conditions(self, pod: &Pod, now: Timestamp) -> Vec<Value> {
        let over = match self.phase() {
            "Succeeded" => Some("PodCompleted"),
            "Failed" => Some("PodFailed"),
            _ => None,
        };
        let sandbox = "PodReadyToStartContainers";
        let initialized = "Initialized";
        let sandbox = match self {
            PodStage::Creating => {
                DesiredCondition::fails(sandbox).because(NO_SANDBOX, "no pod sandbox exists")
            }
            _ if over.is_some() => {
                DesiredCondition::fails(sandbox).because(NO_SANDBOX, "pod sandbox is not ready")
            }
            _ => DesiredCondition::holds(sandbox),
        };
        let incomplete = format!(
            "containers with incomplete status: {}",
            names(pod.spec.init_containers.iter())
        );
        let initialized = match self {
            PodStage::Creating if !pod.spec.init_containers.is_empty() => {
                DesiredCondition::fails(initialized).because("ContainersNotInitialized", &incomplete)
            }
            _ if over == Some("PodCompleted") => {
                DesiredCondition::holds(initialized).because("PodCompleted", "")
            }
            _ => DesiredCondition::holds(initialized),
        };
        let sidecars = pod.spec.init_containers.iter().filter(|one| one.is_sidecar);
        // Those of a pod that crashes run on.
        let sidecars = sidecars.filter(|_| self == PodStage::Creating);
        let unready = format!(
            "containers with unready status: {}",
            names(sidecars.chain(&pod.spec.containers))
        );
        let (reason, message) = match over {
            Some(over) => (over, ""),
            None => (NOT_READY, &*unready),
        };
        let containers = "ContainersReady";
        let ready = "Ready";
        let gates = gates_closed(pod);
        let (containers, ready) = match (self.is_ready(), &gates) {
            (false, _) => (
                DesiredCondition::fails(containers).because(reason, message),
                DesiredCondition::fails(ready).because(reason, message),
            ),
            (true, Some(gates)) => (
                DesiredCondition::holds(containers),
                DesiredCondition::fails(ready).because(GATES_NOT_READY, gates),
            ),
            (true, None) => (
                DesiredCondition::holds(containers),
                DesiredCondition::holds(ready),
            ),
        };
        let scheduled = DesiredCondition::holds("PodScheduled");
        let all = [sandbox, initialized, ready, containers, scheduled];
        let patches = all.into_iter().map(|wanted| {
            let mut patch = wanted.patch(pod.condition(wanted.kind), now);
            patch.insert("observedGeneration".to_owned(), pod.metadata.generation.into());
            Value::Object(patch)
        });
        patches.collect()
    }

    fn container(self, pod: &Pod, container: &Container) -> Value {
        let (restarts, last) = match self {
            PodStage::Running { restarts, last, .. } => (restarts, last),
            PodStage::Crashed { restarts, last, .. } => (restarts, Some(last)),
            PodStage::Creating => (0, None),
            PodStage::Over { .. } | PodStage::Overdue { .. } => {
                let container = &pod.status.container;
                (container.restart_count, container.last.as_deref().copied())
            }
        };
        let state = match self {
            PodStage::Creating if pod.spec.init_containers.is_empty() => waiting("ContainerCreating", None),
            PodStage::Creating => waiting("PodInitializing", None),
            PodStage::Running { since, .. } => json!({"running": {"startedAt": Time(since)}}),
            PodStage::Crashed { wait, .. } => {
                let Pod { metadata, .. } = pod;
                let message = format!(
                    "back-off {} restarting failed container={} pod={}_{}({})",
                    length(wait),
                    container.name,
                    metadata.name,
                    metadata.namespace,
                    metadata.uid
                );
                waiting("CrashLoopBackOff", Some(&message))
            }
            PodStage::Over { ended } | PodStage::Overdue { ended } => {
                terminated(ended, &id(pod, container, restarts))
            }
        };
        let last = last.filter(|_| restarts > 0 || matches!(self, PodStage::Crashed { .. }));
        // What ended is the run before this one, unless it waits for the next one.
        let before = match self {
            PodStage::Crashed { .. } => restarts,
            _ => restarts.saturating_sub(1),
        };
        let last = last.map_or(json!({}), |last| terminated(last, &id(pod, container, before)));
        let mut status = self.described(pod, container, restarts);
        status["ready"] = self.is_ready().into();
        status["started"] = matches!(self, PodStage::Running { .. }).into();
        status["state"] = state;
        status["lastState"] = last;
        status
    }

    /// Init containers have done their work when the others run; those that run on do until the end.
    fn init_container(self, pod: &Pod, container: &Container, began: Timestamp) -> Value {
        let is_over = matches!(self, PodStage::Over { .. } | PodStage::Overdue { .. });
        let mut status = self.described(pod, container, 0);
        let finished_at = match self {
            PodStage::Over { ended } | PodStage::Overdue { ended } if container.is_sidecar => {
                ended.finished_at
            }
            _ => began,
        };
        let done = Terminated {
            exit_code: 0,
            started_at: began,
            finished_at,
        };
        let (state, ready, started) = match self {
            PodStage::Creating => (waiting("PodInitializing", None), false, false),
            _ if container.is_sidecar && !is_over => {
                (json!({"running": {"startedAt": Time(began)}}), true, true)
            }
            _ => (
                terminated(done, &id(pod, container, 0)),
                !container.is_sidecar,
                false,
            ),
        };
        status["ready"] = ready.into();
        status["started"] = started.into();
        status["state"] = state;
        status["lastState"] = json!({});
        status
    }

    fn described(self, pod: &Pod, container: &Container, restarts: u32) -> Value {
        let Container { name, image, .. } = container;
        let (image_id, id) = if self == PodStage::Creating {
            (String::new(), String::new())
        } else {
            (format!("simulated://{image}"), id(pod, container, restarts))
        };
        let mut status = json!({"name": name, "image": image, "imageID": image_id, "restartCount": restarts});
        if !id.is_empty() {
            status["containerID"] = id.into();
        }
        status
    }
}

fn waiting(reason: &str, message: Option<&str>) -> Value {
    let mut waiting = json!({"reason": reason});
    if let Some(message) = message {
        waiting["message"] = message.into();
    }
    json!({"waiting": waiting})
}

fn terminated(ended: Terminated, id: &str) -> Value {
    let reason = if ended.exit_code == 0 {
        "Completed"
    } else {
        "Error"
    };
    json!({"terminated": {
        "containerID": id,
        "exitCode": ended.exit_code,
        "reason": reason,
        "startedAt": Time(ended.started_at),
        "finishedAt": Time(ended.finished_at),
    }})
}

/// What a run of a container is called.
fn id(pod: &Pod, container: &Container, run: u32) -> String {
    format!("simulated://{}/{}/{run}", pod.metadata.uid, container.name)
}

/// Names as Go prints a list of them.
fn names<'a>(containers: impl Iterator<Item = &'a Container>) -> String {
    let names: Vec<_> = containers.map(|container| &*container.name).collect();
    format!("[{}]", names.join(" "))
}

/// A length of time as Go prints it.
fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
