//! Events of the Node.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::{EventRecorder, EventType};
use parking_lot::Mutex;

/// Records events of the Node. Clones share state.
#[derive(Clone)]
pub(in crate::agent) struct NodeEventRecorder {
    recorder: EventRecorder,
    node: Arc<Mutex<ObjectReference>>,
}

impl NodeEventRecorder {
    pub(in crate::agent) fn new(recorder: EventRecorder, node: &str) -> Self {
        let node = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        NodeEventRecorder {
            recorder,
            node: Arc::new(Mutex::new(node)),
        }
    }

    /// Sets the UID of the involved object, which is known after registration.
    pub(super) fn set_uid(&self, uid: &str) {
        let mut node = self.node.lock();
        node.uid = Some(uid.to_owned());
    }

    pub(in crate::agent) fn event(&self, kind: EventType, reason: &str, message: impl Into<String>) {
        let node = self.node.lock().clone();
        self.recorder.event(&node, kind, reason, reason, message);
    }

    /// Records a change of the node status.
    // upstream: pkg/kubelet/kubelet_node_status.go recordNodeStatusEvent
    pub(super) fn record_node_status_event(&self, reason: &str) {
        let name = {
            let node = self.node.lock();
            node.name.clone().unwrap_or_default()
        };
        self.event(
            EventType::Normal,
            reason,
            format!("Node {name} status is now: {reason}"),
        );
    }
}
