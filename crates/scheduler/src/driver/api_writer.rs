//! What the scheduler writes: conditions, events, and pods that have to go.

use std::sync::Arc;

use hashbrown::HashMap;
use http::Method;
use k3_workloads::ConditionStatus;
use k8s_openapi::{api::core::v1::ObjectReference, apimachinery::pkg::apis::meta::v1::Time};
use kubecontroller::{
    Clock,
    events::{EventRecorder, EventType},
    writer::{ApiWriter, JSON, MERGE, STRATEGIC, has_status_code, is_not_found},
};
use serde_json::{Value, json};

use crate::{
    interner::Text,
    object::Pod,
    scheduler_core::{FailureReason, NominatingInfo, Preemption, PreemptionOutcome},
};

/// Events carry no longer notes.
const NOTE: usize = 1024;

/// Writes for the scheduler.
// upstream: pkg/scheduler/backend/api_dispatcher/api_dispatcher.go APIDispatcher
pub(super) struct SchedulerWriter {
    writer: ApiWriter,
    clock: Clock,
    recorders: HashMap<Text, EventRecorder>,
}

impl SchedulerWriter {
    /// With the rights of a client; recorders by scheduler name.
    pub(super) fn new(client: kube::Client, clock: Clock, recorders: HashMap<Text, EventRecorder>) -> Self {
        SchedulerWriter {
            writer: ApiWriter::new(client),
            clock,
            recorders,
        }
    }

    /// Creates something.
    pub(super) async fn post(&self, path: &str, body: &Value) -> kube::Result<()> {
        self.writer.send_only(Method::POST, path, JSON, body).await
    }

    /// Changes something.
    pub(super) async fn merge(&self, path: &str, patch: &Value) -> kube::Result<()> {
        self.writer.send_only(Method::PATCH, path, MERGE, patch).await
    }

    /// Patches the status of a pod. Ignores that the pod no longer exists.
    pub(super) async fn patch_status(&self, pod: &Pod, patch: &Value) {
        match self.change_status(pod, patch).await {
            Err(error) if !is_deleted(&error) => {
                tracing::warn!(namespace = %pod.namespace, pod = %pod.name, %error, "status of a pod not written");
            }
            _ => {}
        }
    }

    /// The patch for the `PodScheduled` condition and the nominated node; `None` if the status already has both.
    pub(super) fn pod_condition_patch(
        &self,
        pod: &Pod,
        message: &str,
        reason: FailureReason,
        nominating_info: &NominatingInfo,
    ) -> Option<Value> {
        let reason = reason.as_str();
        let mut status = serde_json::Map::new();
        let known = pod.condition.as_deref();
        let error_message = known.is_some_and(|known| {
            known.status == ConditionStatus::False && &*known.reason == reason && &*known.message == message
        });
        if !error_message {
            let mut condition = json!({
                "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                "lastProbeTime": null, "observedGeneration": pod.generation,
            });
            if known.is_none_or(|known| known.status != ConditionStatus::False) {
                condition["lastTransitionTime"] = json!(Time(self.clock.now()));
            }
            status.insert("conditions".into(), json!([condition]));
        }
        let nominated_node_name = match nominating_info {
            NominatingInfo::Noop => None,
            NominatingInfo::Clear => Some(Value::Null),
            NominatingInfo::Override(node) => Some(json!(&**node)),
        };
        if let Some(nominated_node_name) = nominated_node_name {
            status.insert("nominatedNodeName".into(), nominated_node_name);
        }
        (!status.is_empty()).then(|| json!({"metadata": {"uid": &*pod.uid}, "status": status}))
    }

    /// Writes the nominated node into the pod's status, unless it is there.
    pub(super) async fn nominating_info(&self, pod: &Pod, node: &Text) {
        if pod.nominated_node_name.as_ref() != Some(node) {
            let status = json!({"nominatedNodeName": &**node});
            let patch = json!({"metadata": {"uid": &*pod.uid}, "status": status});
            self.patch_status(pod, &patch).await;
        }
    }

    /// Evicts the victims of a preemption.
    pub(super) async fn preempt(&self, pod: &Pod, preempt: &Preemption) -> PreemptionOutcome {
        for weaker in &preempt.lower_priority_nominated_pods {
            let patch = json!({"metadata": {"uid": &*weaker.uid}, "status": {"nominatedNodeName": null}});
            self.patch_status(weaker, &patch).await;
        }
        let evictions = preempt
            .victims
            .iter()
            .map(|victim| self.evict_victim(pod, victim, &preempt.node));
        let evicted = futures_util::future::join_all(evictions).await;
        if evicted.into_iter().all(|evicted| evicted) {
            PreemptionOutcome::Evicted
        } else {
            PreemptionOutcome::Failed
        }
    }

    async fn evict_victim(&self, pod: &Pod, victim: &Arc<Pod>, node: &Text) -> bool {
        let message = format!(
            "{}: preempting to accommodate a higher priority pod",
            pod.spec.scheduler
        );
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "lastProbeTime": null, "lastTransitionTime": Time(self.clock.now()), "observedGeneration": victim.generation,
        });
        let patch = json!({"metadata": {"uid": &*victim.uid}, "status": {"conditions": [condition]}});
        let path = path(victim);
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": &*victim.uid}});
        let result = match self.change_status(victim, &patch).await {
            Ok(()) => self.writer.send_only(Method::DELETE, &path, JSON, &options).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                let note = format!("Preempted by pod {} on node {node}", pod.uid);
                if let Some(recorder) = self.recorders.get(&pod.spec.scheduler) {
                    let related = reference(pod);
                    recorder.event_with(
                        &reference(victim),
                        Some(&related),
                        EventType::Normal,
                        "Preempted",
                        "Preempting",
                        note,
                    );
                }
                true
            }
            Err(error) if is_deleted(&error) => true,
            Err(error) => {
                tracing::warn!(namespace = %victim.namespace, pod = %victim.name, %error, "pod not pushed away");
                false
            }
        }
    }

    /// Records the `Scheduled` event.
    pub(super) fn record_scheduled(&self, pod: &Pod, node: &Text) {
        let note = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        self.record_event(pod, EventType::Normal, "Scheduled", "Binding", note);
    }

    /// Records the `FailedScheduling` event.
    pub(super) fn record_failed_scheduling(&self, pod: &Pod, message: &str) {
        let mut note = message.to_owned();
        if note.len() > NOTE {
            note.truncate(note.floor_char_boundary(NOTE - 4));
            note.push_str(" ...");
        }
        self.record_event(pod, EventType::Warning, "FailedScheduling", "Scheduling", note);
    }

    /// Records that a terminating pod was skipped.
    pub(super) fn record_skipped(&self, pod: &Pod) {
        let note = format!("skip schedule deleting pod: {}/{}", pod.namespace, pod.name);
        self.record_event(pod, EventType::Warning, "FailedScheduling", "Scheduling", note);
    }

    fn record_event(&self, pod: &Pod, kind: EventType, reason: &str, action: &str, note: String) {
        if let Some(recorder) = self.recorders.get(&pod.spec.scheduler) {
            recorder.event(&reference(pod), kind, reason, action, note);
        }
    }

    async fn change_status(&self, pod: &Pod, patch: &Value) -> kube::Result<()> {
        let path = format!("{}/status", path(pod));
        self.writer
            .send_only(Method::PATCH, &path, STRATEGIC, patch)
            .await
    }
}

fn path(pod: &Pod) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// Whether the pod that was meant is not there any more.
fn is_deleted(error: &kube::Error) -> bool {
    is_not_found(error) || has_status_code(error, 409)
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        name: Some(pod.name.to_string()),
        namespace: Some(pod.namespace.to_string()),
        resource_version: Some(pod.version.to_string()),
        uid: Some(pod.uid.to_string()),
        field_path: None,
    }
}
