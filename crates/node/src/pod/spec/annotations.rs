//! Annotations on containers, from which the agent restores state after a restart.
// upstream: pkg/kubelet/kuberuntime/labels.go newContainerAnnotations, annotatedContainerInfo

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use serde_json::json;

/// The kubelet's annotation names, which tools for the kubelet read.
const HASH: &str = "io.kubernetes.container.hash";
const RESTARTS: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// Parsed annotations of a container. Invalid values count as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerAnnotations {
    /// Hash of the container spec, by [`hash_container`].
    pub hash: Option<String>,
    /// Restart count.
    pub restarts: Option<u32>,
    /// `terminationMessagePath`.
    pub message_path: String,
    /// `terminationMessagePolicy`: `File`, or `FallbackToLogsOnError`.
    pub message_policy: String,
    /// `preStop` hook.
    pub pre_stop: Option<LifecycleHandler>,
    /// Deletion grace period of the pod in seconds, if it was already terminating.
    pub deletion_grace: Option<i64>,
    /// Grace period of the pod in seconds.
    pub termination_grace: Option<i64>,
}

/// Hash of the fields whose change requires a new container: name and image. Stable across machines and versions.
// upstream: pkg/kubelet/container/helpers.go HashContainer, pickFieldsToHash; upstream hashes the same fields as JSON
pub fn hash_container(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let picked = [&*container.name, image].join("\n");
    // FNV-1a; collision resistance is not needed.
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = picked.bytes().fold(0x811c_9dc5, fold);
    format!("{hash:x}")
}

// --- ContainerAnnotations ---

impl ContainerAnnotations {
    /// Parses the annotations of a container.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| annotations.get(name);
        ContainerAnnotations {
            hash: text(HASH).cloned(),
            restarts: text(RESTARTS).and_then(|text| text.parse().ok()),
            message_path: text(MESSAGE_PATH).cloned().unwrap_or_default(),
            message_policy: text(MESSAGE_POLICY).cloned().unwrap_or_default(),
            pre_stop: text(PRE_STOP).and_then(|text| serde_json::from_str(text).ok()),
            deletion_grace: text(DELETION_GRACE).and_then(|text| text.parse().ok()),
            termination_grace: text(TERMINATION_GRACE).and_then(|text| text.parse().ok()),
        }
    }
}

/// The annotations of a container to create.
pub(super) fn container_annotations(
    pod: &Pod,
    container: &Container,
    attempt: u32,
) -> BTreeMap<String, String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let mut annotations = BTreeMap::from([
        (HASH.to_owned(), hash_container(container)),
        (RESTARTS.to_owned(), attempt.to_string()),
        (MESSAGE_PATH.to_owned(), text(&container.termination_message_path)),
        (
            MESSAGE_POLICY.to_owned(),
            text(&container.termination_message_policy),
        ),
    ]);
    let mut insert = |name: &str, value: Option<String>| {
        annotations.extend(value.map(|value| (name.to_owned(), value)));
    };
    let grace = pod.metadata.deletion_grace_period_seconds;
    insert(DELETION_GRACE, grace.map(|grace| grace.to_string()));
    let grace = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    insert(TERMINATION_GRACE, grace.map(|grace| grace.to_string()));
    let lifecycle = container.lifecycle.as_ref();
    let pre_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    insert(PRE_STOP, pre_stop.map(|handler| json!(handler).to_string()));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    insert(PORTS, ports.map(|ports| json!(ports).to_string()));
    annotations
}
