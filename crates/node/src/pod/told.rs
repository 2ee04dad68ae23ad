//! What users are told of a pod: events, in upstream's words.

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};
use kubecontroller::events::{EventRecorder, EventType};

use crate::runtime::ContainerId;

/// Tells of pods and their containers. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Teller {
    recorder: EventRecorder,
}

// --- Teller ---

impl Teller {
    /// Tells it to the API.
    pub(super) fn new(recorder: EventRecorder) -> Self {
        Teller { recorder }
    }

    /// Something of a pod.
    pub(super) fn pod(&self, pod: &Pod, kind: EventType, reason: &str, message: impl Into<String>) {
        self.recorder
            .event(&reference(pod), kind, reason, reason, message);
    }

    /// Something of a container. The id is left out of the message: with it every event would be another one.
    pub(super) fn container(
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

/// A pod, as events name it.
pub(super) fn reference(pod: &Pod) -> ObjectReference {
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

/// A container, as events name it.
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
        ..reference(pod)
    }
}

/// A pod as messages name it: `name_namespace(uid)`.
pub(super) fn name(pod: &Pod) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        text(&meta.name),
        text(&meta.namespace),
        text(&meta.uid)
    )
}
