//! Events about pods and containers, with upstream's reasons and messages.

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};
use kubecontroller::events::{EventRecorder, EventType};

use crate::runtime::ContainerId;

/// Records events about pods and their containers.
#[derive(Clone, Debug)]
pub(super) struct PodEventRecorder {
    recorder: EventRecorder,
}

// --- PodEventRecorder ---

impl PodEventRecorder {
    pub(super) fn new(recorder: EventRecorder) -> Self {
        PodEventRecorder { recorder }
    }

    /// Records an event about a pod.
    pub(super) fn record_pod_event(
        &self,
        pod: &Pod,
        kind: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        self.recorder
            .event(&pod_reference(pod), kind, reason, reason, message);
    }

    /// Records an event about a container. The container ID is removed from the message: otherwise events with the same
    /// meaning would not be aggregated.
    // upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go recordContainerEvent
    pub(super) fn record_container_event(
        &self,
        pod: &Pod,
        container: &Container,
        id: Option<&ContainerId>,
        kind: EventType,
        reason: &str,
        message: &str,
    ) {
        let message = match id {
            Some(id) if !id.0.is_empty() => message.replace(&id.0, &container.name),
            _ => message.to_owned(),
        };
        let regarding = container_reference(pod, &container.name);
        self.recorder.event(&regarding, kind, reason, reason, message);
    }
}

/// Object reference of a pod.
pub(super) fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Object reference of a container.
// upstream: pkg/kubelet/container/ref.go GenerateContainerRef
pub(super) fn container_reference(pod: &Pod, name: &str) -> ObjectReference {
    let spec = pod.spec.as_ref();
    let is_init = spec.is_some_and(|spec| {
        let mut init = spec.init_containers.iter().flatten();
        init.any(|container| container.name == name)
    });
    let is_ephemeral = spec.is_some_and(|spec| {
        let mut ephemeral = spec.ephemeral_containers.iter().flatten();
        ephemeral.any(|container| container.name == name)
    });
    let list = match (is_init, is_ephemeral) {
        (true, _) => "initContainers",
        (_, true) => "ephemeralContainers",
        _ => "containers",
    };
    ObjectReference {
        field_path: Some(format!("spec.{list}{{{name}}}")),
        ..pod_reference(pod)
    }
}
