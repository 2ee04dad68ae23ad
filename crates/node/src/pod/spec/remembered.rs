//! What the agent finds again on a container it made, also after a restart of its own.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use serde_json::json;

/// The names of the annotations are those that a kubelet gives, so that its tools know them.
const HASH: &str = "io.kubernetes.container.hash";
const RESTARTS: &str = "io.kubernetes.container.restartCount";
const MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
const MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
const PRE_STOP: &str = "io.kubernetes.container.preStopHandler";
const PORTS: &str = "io.kubernetes.container.ports";
const DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
const TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// What is written on a container when it is made. What cannot be read is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    /// What the container's spec was, by [`hash`].
    pub hash: Option<String>,
    /// How often it was begun before.
    pub restarts: Option<u32>,
    /// The file in which it leaves a message.
    pub message_path: String,
    /// `File`, or `FallbackToLogsOnError`.
    pub message_policy: String,
    /// What is done before it is asked to end.
    pub pre_stop: Option<LifecycleHandler>,
    /// How many seconds its pod had to end, if it was ending already.
    pub deletion_grace: Option<i64>,
    /// How many seconds its pod has to end.
    pub termination_grace: Option<i64>,
}

/// Of what a container has to be made again when it changes: its name and its image. The same on every machine and for ever.
pub fn hash(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let picked = [&*container.name, image].join("\n");
    // FNV-1a: what it is used for needs no more.
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = picked.bytes().fold(0x811c_9dc5, fold);
    format!("{hash:x}")
}

// --- Remembered ---

impl Remembered {
    /// What was written on a container.
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| annotations.get(name);
        Remembered {
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

/// What is written on a container that was begun `attempt` times before.
pub(super) fn annotations(pod: &Pod, container: &Container, attempt: u32) -> BTreeMap<String, String> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let mut notes = BTreeMap::from([
        (HASH.to_owned(), hash(container)),
        (RESTARTS.to_owned(), attempt.to_string()),
        (MESSAGE_PATH.to_owned(), text(&container.termination_message_path)),
        (
            MESSAGE_POLICY.to_owned(),
            text(&container.termination_message_policy),
        ),
    ]);
    let mut note = |name: &str, value: Option<String>| {
        notes.extend(value.map(|value| (name.to_owned(), value)));
    };
    let grace = pod.metadata.deletion_grace_period_seconds;
    note(DELETION_GRACE, grace.map(|grace| grace.to_string()));
    let grace = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.termination_grace_period_seconds);
    note(TERMINATION_GRACE, grace.map(|grace| grace.to_string()));
    let lifecycle = container.lifecycle.as_ref();
    let pre_stop = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref());
    note(PRE_STOP, pre_stop.map(|handler| json!(handler).to_string()));
    let ports = container.ports.as_ref().filter(|ports| !ports.is_empty());
    note(PORTS, ports.map(|ports| json!(ports).to_string()));
    notes
}
