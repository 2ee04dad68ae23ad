//! The status of a pod as a kubelet writes it.

use std::{net::IpAddr, time::Duration};

use k3_workloads::{Condition, ConditionStatus, Container};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use serde_json::{Map, Value, json};

use super::object::{FinishedRun, GATES_NOT_READY, SimulatedPod};
use crate::condition::DesiredCondition;

/// A stage in the lifecycle of a pod that its status shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodStage {
    /// The node creates the containers.
    Creating,
    /// The containers run.
    Running {
        since: Timestamp,
        restarts: u32,
        ready: bool,
        last: Option<FinishedRun>,
    },
    /// The containers exited and wait for the restart back-off.
    Crashed {
        restarts: u32,
        last: FinishedRun,
        wait: Duration,
    },
    /// The containers exited and are not restarted.
    Finished { ended: FinishedRun },
    /// The pod exceeded `activeDeadlineSeconds`.
    DeadlineExceeded { ended: FinishedRun },
}

/// New addresses of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodAddresses {
    /// The address of the node, if it is not reported yet.
    pub(super) host: Option<IpAddr>,
    /// The pod addresses, if they are not reported yet.
    pub(super) own: Vec<IpAddr>,
}

const NOT_READY: &str = "ContainersNotReady";
const NO_SANDBOX: &str = "PodSandboxNotReady";
const DEADLINE_EXCEEDED_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// Describes the readiness gates that are not true; `None` if all are.
pub(super) fn unready_gates_message(pod: &SimulatedPod) -> Option<String> {
    let mut messages = Vec::new();
    for gate in &pod.spec.template.readiness_gates {
        match Condition::find(&pod.status.conditions, gate) {
            Some(condition) if condition.status == ConditionStatus::True => {}
            Some(condition) => messages.push(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {}",
                condition.status.as_str()
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
    /// The status patch that leads to this stage. It contains the resource version, so it applies only to the observed object.
    pub(super) fn patch(self, pod: &SimulatedPod, addresses: &PodAddresses, now: Timestamp) -> Value {
        let start_time = pod.status.start_time.unwrap_or(now);
        let mut status = Map::new();
        let mut set = |name: &str, value: Value| status.insert(name.to_owned(), value);
        set("phase", self.phase().into());
        set("observedGeneration", pod.metadata.generation.into());
        set("conditions", self.conditions(pod, now).into());
        if pod.status.start_time.is_none() {
            set("startTime", json!(Time(start_time)));
        }
        if let Some(host) = addresses.host {
            set("hostIP", json!(host));
            set("hostIPs", json!([{"ip": host}]));
        }
        if let Some(first) = addresses.own.first() {
            set("podIP", json!(first));
            let all = addresses.own.iter().map(|ip| json!({"ip": ip}));
            set("podIPs", all.collect());
        }
        let spec = &pod.spec.template;
        let containers = spec
            .containers
            .iter()
            .map(|container| self.container(pod, container));
        set("containerStatuses", containers.collect());
        if !spec.init_containers.is_empty() {
            let init = spec.init_containers.iter();
            set(
                "initContainerStatuses",
                init.map(|container| self.init_container(pod, container, start_time))
                    .collect(),
            );
        }
        if let PodStage::DeadlineExceeded { .. } = self {
            set("reason", "DeadlineExceeded".into());
            set("message", DEADLINE_EXCEEDED_MESSAGE.into());
        }
        let metadata = &pod.metadata;
        json!({"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": status})
    }

    fn phase(self) -> &'static str {
        match self {
            PodStage::Creating => "Pending",
            PodStage::Running { .. } | PodStage::Crashed { .. } => "Running",
            PodStage::Finished { ended } if ended.exit_code == 0 => "Succeeded",
            PodStage::Finished { .. } | PodStage::DeadlineExceeded { .. } => "Failed",
        }
    }

    fn is_ready(self) -> bool {
        matches!(self, PodStage::Running { ready: true, .. })
    }

    fn conditions(self, pod: &SimulatedPod, now: Timestamp) -> Vec<Value> {
        let over = match self.phase() {
            "Succeeded" => Some("PodCompleted"),
            "Failed" => Some("PodFailed"),
            _ => None,
        };
        let sandbox = "PodReadyToStartContainers";
        let initialized = "Initialized";
        let sandbox = match self {
            PodStage::Creating => {
                DesiredCondition::new_false(sandbox).with_reason(NO_SANDBOX, "no pod sandbox exists")
            }
            _ if over.is_some() => {
                DesiredCondition::new_false(sandbox).with_reason(NO_SANDBOX, "pod sandbox is not ready")
            }
            _ => DesiredCondition::new_true(sandbox),
        };
        let incomplete = format!(
            "containers with incomplete status: {}",
            format_go_list(pod.spec.template.init_containers.iter())
        );
        let initialized = match self {
            PodStage::Creating if !pod.spec.template.init_containers.is_empty() => {
                DesiredCondition::new_false(initialized).with_reason("ContainersNotInitialized", &incomplete)
            }
            _ if over == Some("PodCompleted") => {
                DesiredCondition::new_true(initialized).with_reason("PodCompleted", "")
            }
            _ => DesiredCondition::new_true(initialized),
        };
        let sidecars = pod
            .spec
            .template
            .init_containers
            .iter()
            .filter(|one| one.is_sidecar);
        // Sidecars keep running while the other containers crash.
        let sidecars = sidecars.filter(|_| self == PodStage::Creating);
        let unready = format!(
            "containers with unready status: {}",
            format_go_list(sidecars.chain(&pod.spec.template.containers))
        );
        let (reason, message) = match over {
            Some(over) => (over, ""),
            None => (NOT_READY, &*unready),
        };
        let containers = "ContainersReady";
        let ready = "Ready";
        let gates = unready_gates_message(pod);
        let (containers, ready) = match (self.is_ready(), &gates) {
            (false, _) => (
                DesiredCondition::new_false(containers).with_reason(reason, message),
                DesiredCondition::new_false(ready).with_reason(reason, message),
            ),
            (true, Some(gates)) => (
                DesiredCondition::new_true(containers),
                DesiredCondition::new_false(ready).with_reason(GATES_NOT_READY, gates),
            ),
            (true, None) => (
                DesiredCondition::new_true(containers),
                DesiredCondition::new_true(ready),
            ),
        };
        let scheduled = DesiredCondition::new_true("PodScheduled");
        let all = [sandbox, initialized, ready, containers, scheduled];
        let patches = all.into_iter().map(|wanted| {
            let mut patch = wanted.patch(pod.condition(wanted.kind), now);
            patch.insert("observedGeneration".to_owned(), pod.metadata.generation.into());
            Value::Object(patch)
        });
        patches.collect()
    }

    fn container(self, pod: &SimulatedPod, container: &Container) -> Value {
        let (restarts, last) = match self {
            PodStage::Running { restarts, last, .. } => (restarts, last),
            PodStage::Crashed { restarts, last, .. } => (restarts, Some(last)),
            PodStage::Creating => (0, None),
            PodStage::Finished { .. } | PodStage::DeadlineExceeded { .. } => {
                let container = &pod.run;
                (container.restart_count, container.last)
            }
        };
        let state = match self {
            PodStage::Creating if pod.spec.template.init_containers.is_empty() => {
                waiting("ContainerCreating", None)
            }
            PodStage::Creating => waiting("PodInitializing", None),
            PodStage::Running { since, .. } => json!({"running": {"startedAt": Time(since)}}),
            PodStage::Crashed { wait, .. } => {
                let metadata = &pod.metadata;
                let message = format!(
                    "back-off {} restarting failed container={} pod={}_{}({})",
                    k3_duration::format(Duration::from_secs(wait.as_secs())),
                    container.name,
                    metadata.name,
                    metadata.namespace,
                    metadata.uid
                );
                waiting("CrashLoopBackOff", Some(&message))
            }
            PodStage::Finished { ended } | PodStage::DeadlineExceeded { ended } => {
                terminated(ended, &container_id(pod, container, restarts))
            }
        };
        let last = last.filter(|_| restarts > 0 || matches!(self, PodStage::Crashed { .. }));
        // `lastState` describes the previous run; a container in back-off has not started its next run yet.
        let before = match self {
            PodStage::Crashed { .. } => restarts,
            _ => restarts.saturating_sub(1),
        };
        let last = last.map_or(json!({}), |last| {
            terminated(last, &container_id(pod, container, before))
        });
        let mut status = self.base_status(pod, container, restarts);
        status["ready"] = self.is_ready().into();
        status["started"] = matches!(self, PodStage::Running { .. }).into();
        status["state"] = state;
        status["lastState"] = last;
        status
    }

    /// Init containers have completed when the others run; sidecars run until the pod finishes.
    fn init_container(self, pod: &SimulatedPod, container: &Container, start_time: Timestamp) -> Value {
        let is_over = matches!(
            self,
            PodStage::Finished { .. } | PodStage::DeadlineExceeded { .. }
        );
        let mut status = self.base_status(pod, container, 0);
        let finished_at = match self {
            PodStage::Finished { ended } | PodStage::DeadlineExceeded { ended } if container.is_sidecar => {
                ended.finished_at
            }
            _ => start_time,
        };
        let done = FinishedRun {
            exit_code: 0,
            started_at: start_time,
            finished_at,
        };
        let (state, ready, started) = match self {
            PodStage::Creating => (waiting("PodInitializing", None), false, false),
            _ if container.is_sidecar && !is_over => {
                (json!({"running": {"startedAt": Time(start_time)}}), true, true)
            }
            _ => (
                terminated(done, &container_id(pod, container, 0)),
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

    fn base_status(self, pod: &SimulatedPod, container: &Container, restarts: u32) -> Value {
        let Container { name, image, .. } = container;
        let (image_id, id) = if self == PodStage::Creating {
            (String::new(), String::new())
        } else {
            (
                format!("simulated://{image}"),
                container_id(pod, container, restarts),
            )
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

fn terminated(ended: FinishedRun, id: &str) -> Value {
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

/// The ID of one run of a container.
fn container_id(pod: &SimulatedPod, container: &Container, run: u32) -> String {
    format!("simulated://{}/{}/{run}", pod.metadata.uid, container.name)
}

/// Formats container names as Go prints a slice.
fn format_go_list<'a>(containers: impl Iterator<Item = &'a Container>) -> String {
    let names: Vec<_> = containers.map(|container| &*container.name).collect();
    format!("[{}]", names.join(" "))
}
