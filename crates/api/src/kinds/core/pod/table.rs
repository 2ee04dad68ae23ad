//! Table row of a pod.

use std::collections::HashMap;

use k3_duration::human_duration;
use serde_json::{Value, json};

use super::options::is_sidecar;
use crate::{
    strategy::{Column, Row, Tree, age},
    time::Time,
};

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Ready",
        "The aggregate readiness state of this pod for accepting traffic.",
    ),
    Column::text("Status", "The aggregate status of the containers in this pod."),
    Column::text(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has \
         restarted.",
    ),
    Column::age(),
    Column::field("IP", "status.podIP").wide(),
    Column::field("Node", "spec.nodeName").wide(),
    Column::field("Nominated Node", "status.nominatedNodeName").wide(),
    Column::field("Readiness Gates", "spec.readinessGates").wide(),
];

/// Restart count, and when a container terminated last.
#[derive(Clone, Copy, Default)]
struct RestartSummary {
    count: i64,
    last: Option<Time>,
}

/// Totals over the containers of a pod.
struct ContainerSummary {
    reason: String,
    ready: usize,
    restarts: RestartSummary,
}

// upstream: pkg/printers/internalversion/printers.go printPod
pub(super) fn print_pod(pod: &Value, now: Time) -> Row {
    let spec = pod.at("spec");
    let status = pod.at("status");
    let metadata = pod.at("metadata");
    let sidecars = spec
        .items("initContainers")
        .iter()
        .filter(|c| is_sidecar(c))
        .count();
    let total = spec.items("containers").len() + sidecars;
    let ContainerSummary {
        mut reason,
        ready,
        restarts,
    } = summarize_containers(spec, status);
    let phase = status.text("phase");
    if metadata.has("deletionTimestamp") {
        if status.text("reason") == "NodeLost" {
            "Unknown".clone_into(&mut reason);
        } else if !matches!(phase, "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut reason);
        }
    }
    let or_none = |text: &str| json!(if text.is_empty() { "<none>" } else { text });
    let address = status
        .items("podIPs")
        .first()
        .map_or("", |address| address.text("ip"));
    let cells = vec![
        json!(metadata.text("name")),
        json!(format!("{ready}/{total}")),
        json!(reason),
        json!(restarts.format(now)),
        age(metadata.text("creationTimestamp"), now),
        or_none(address),
        or_none(spec.text("nodeName")),
        or_none(status.text("nominatedNodeName")),
        json!(format_readiness_gates(spec, status)),
    ];
    let mut row = Row::new(cells);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return row,
    };
    row.conditions = vec![json!({
        "type": "Completed",
        "status": "True",
        "reason": phase,
        "message": message,
    })];
    row
}

/// Whether [`row`] reads fields of this name.
pub(super) fn row_reads_field(name: &str) -> bool {
    matches!(
        name,
        "conditionType"
            | "conditions"
            | "containerStatuses"
            | "containers"
            | "creationTimestamp"
            | "deletionTimestamp"
            | "exitCode"
            | "finishedAt"
            | "initContainerStatuses"
            | "initContainers"
            | "ip"
            | "lastState"
            | "metadata"
            | "name"
            | "nodeName"
            | "nominatedNodeName"
            | "phase"
            | "podIPs"
            | "readinessGates"
            | "ready"
            | "reason"
            | "restartCount"
            | "restartPolicy"
            | "running"
            | "signal"
            | "spec"
            | "started"
            | "state"
            | "status"
            | "terminated"
            | "type"
            | "waiting"
    )
}

// upstream: pkg/printers/internalversion/printers.go printPod
fn summarize_containers(spec: &Value, status: &Value) -> ContainerSummary {
    let mut reason = match status.text("reason") {
        "" => status.text("phase"),
        reason => reason,
    }
    .to_owned();
    let conditions = status.items("conditions");
    let gated = |c: &Value| c.text("type") == "PodScheduled" && c.text("reason") == "SchedulingGated";
    if conditions.iter().any(gated) {
        "SchedulingGated".clone_into(&mut reason);
    }
    let mut ready = 0;
    let mut restarts = RestartSummary::default();
    let mut of_sidecars = RestartSummary::default();
    let mut initializing = false;
    let init = spec.items("initContainers");
    // Of several with one name, the last counts.
    let by_name: HashMap<&str, &Value> = init.iter().map(|c| (c.text("name"), c)).collect();
    for (index, container) in status.items("initContainerStatuses").iter().enumerate() {
        restarts.add(container);
        let name = container.text("name");
        let sidecar = by_name.get(name).is_some_and(|c| is_sidecar(c));
        if sidecar {
            of_sidecars.add(container);
        }
        let state = container.at("state");
        let ended = state.at("terminated");
        let waiting = state.at("waiting").text("reason");
        if !ended.is_null() && ended.int_or_zero("exitCode") == 0 {
            continue;
        }
        if sidecar && container.flag("started") {
            ready += usize::from(container.flag("ready"));
            continue;
        }
        reason = if !ended.is_null() {
            format!("Init:{}", termination_reason(ended))
        } else if !matches!(waiting, "" | "PodInitializing") {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", init.len())
        };
        initializing = true;
        break;
    }
    let is_true = |ty: &str| {
        let mut of_type = conditions.iter().filter(|c| c.text("type") == ty);
        of_type.next().is_some_and(|c| c.text("status") == "True")
    };
    if initializing && !is_true("Initialized") {
        return ContainerSummary {
            reason,
            ready,
            restarts,
        };
    }
    let mut sum = ContainerSummary {
        reason,
        ready,
        restarts: of_sidecars,
    };
    sum.add_containers(status);
    sum
}

/// The reason of a terminated container.
fn termination_reason(ended: &Value) -> String {
    match (ended.text("reason"), ended.int_or_zero("signal")) {
        ("", 0) => format!("ExitCode:{}", ended.int_or_zero("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn format_readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = spec.items("readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    // Of several conditions of one type, the first counts.
    let conditions = status.items("conditions").iter().rev();
    let statuses: HashMap<&str, &str> = conditions
        .map(|condition| (condition.text("type"), condition.text("status")))
        .collect();
    let open = gates
        .iter()
        .filter(|gate| statuses.get(gate.text("conditionType")) == Some(&"True"));
    format!("{}/{}", open.count(), gates.len())
}

// --- Sum ---

impl ContainerSummary {
    /// Adds the containers in the status of a pod. The first with a reason provides that of the pod.
    fn add_containers(&mut self, status: &Value) {
        let mut running = false;
        let mut failure = None;
        for container in status.items("containerStatuses").iter().rev() {
            self.restarts.add(container);
            let state = container.at("state");
            let ended = state.at("terminated");
            let waiting = state.at("waiting").text("reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if !ended.is_null() {
                self.reason = termination_reason(ended);
                if ended.int_or_zero("exitCode") != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if container.flag("ready") && state.has("running") {
                running = true;
                self.ready += 1;
            }
        }
        // Some have completed, but not all.
        if self.reason == "Completed" {
            if running && has_ready_condition(status) {
                "Running".clone_into(&mut self.reason);
            } else if let Some(failure) = failure {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }
}

fn has_ready_condition(status: &Value) -> bool {
    status
        .items("conditions")
        .iter()
        .any(|c| c.text("type") == "Ready" && c.text("status") == "True")
}

// --- Restarts ---

impl RestartSummary {
    fn add(&mut self, container: &Value) {
        self.count += container.int_or_zero("restartCount");
        let ended = container.at_path("lastState.terminated.finishedAt").as_str();
        let ended = ended.and_then(|text| Time::parse(text).ok());
        self.last = self.last.max(ended);
    }

    fn format(&self, now: Time) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human_duration(now.since(last)))
            }
            _ => self.count.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(pod: &Value) -> Vec<String> {
        let now = Time::parse("2026-01-02T00:01:00Z").expect("a time");
        let text = |cell: &Value| cell.as_str().unwrap_or_default().to_owned();
        let cells = print_pod(pod, now).cells;
        assert_eq!(print_pod(&outline(pod), now).cells, cells, "a field is not named");
        cells.iter().map(text).collect()
    }

    /// A tree of the fields that are named.
    fn outline(tree: &Value) -> Value {
        match tree {
            Value::Object(fields) => {
                let named = fields.iter().filter(|(name, _)| row_reads_field(name));
                named
                    .map(|(name, value)| (name.clone(), outline(value)))
                    .collect()
            }
            Value::Array(items) => items.iter().map(outline).collect(),
            value => value.clone(),
        }
    }

    #[test]
    fn row_reads_only_declared_fields() {
        let status = |status: Value| {
            json!({
                "metadata": {"name": "p", "creationTimestamp": "2026-01-02T00:00:00Z", "labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "i"}], "initContainers": [
                    {"name": "i", "restartPolicy": "Always"}, {"name": "j"}], "nodeName": "n", "volumes": [{"name": "v"}]},
                "status": status,
            })
        };
        let ready_status_restarts = |of: Value| cells(&status(of))[1..4].join(" ");
        assert_eq!(
            ready_status_restarts(json!({"reason": "Evicted", "message": "m"})),
            "0/2 Evicted 0"
        );
        let gated = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "m"}]});
        assert_eq!(ready_status_restarts(gated), "0/2 SchedulingGated 0");
        let sidecar = json!({"phase": "Pending", "nominatedNodeName": "n", "initContainerStatuses": [
            {"name": "i", "started": true, "ready": true, "restartCount": 1, "state": {"running": {"startedAt": "t"}},
             "lastState": {"terminated": {"finishedAt": "2026-01-02T00:00:30Z", "exitCode": 1}}},
            {"name": "j", "state": {"terminated": {"exitCode": 0, "signal": 9}}}]});
        assert_eq!(ready_status_restarts(sidecar), "1/2 Pending 1 (30s ago)");
        let failed = json!({"phase": "Pending", "initContainerStatuses": [
            {"name": "j", "state": {"terminated": {"exitCode": 1, "signal": 9}}}]});
        assert_eq!(ready_status_restarts(failed), "0/2 Init:Signal:9 0");
        let ended = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
            {"name": "a", "ready": true, "state": {"running": {}}},
            {"name": "b", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]});
        assert_eq!(ready_status_restarts(ended), "1/2 Running 0");
    }

    #[test]
    fn row_shows_ready_containers_and_restarts() {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-01-02T00:00:00Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "nodeName": "n", "readinessGates": [{"conditionType": "g"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [
                {"name": "a", "ready": true, "state": {"running": {}}, "restartCount": 2,
                 "lastState": {"terminated": {"finishedAt": "2026-01-02T00:00:30Z"}}},
                {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            ]},
        });
        assert_eq!(
            cells(&pod),
            [
                "p",
                "1/2",
                "CrashLoopBackOff",
                "2 (30s ago)",
                "60s",
                "10.0.0.1",
                "n",
                "<none>",
                "0/1"
            ]
        );
    }

    #[test]
    fn row_shows_init_progress() {
        let pod = json!({
            "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 0}}},
                {"name": "j", "state": {"waiting": {"reason": "PodInitializing"}}},
            ]},
        });
        assert_eq!(cells(&pod)[1..3], ["0/1", "Init:1/2"]);
    }

    #[test]
    fn row_of_a_completed_pod() {
        let pod = json!({"status": {"phase": "Failed"}});
        let now = Time::parse("2026-01-02T00:01:00Z").expect("a time");
        assert_eq!(
            print_pod(&pod, now).conditions[0].text("message"),
            "The pod failed."
        );
    }

    #[test]
    fn row_of_a_terminating_pod() {
        let pod = json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}, "status": {"phase": "Running"}});
        assert_eq!(cells(&pod)[2], "Terminating");
    }
}
