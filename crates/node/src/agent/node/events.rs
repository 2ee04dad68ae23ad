//! What is told of the node.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kubecontroller::events::{EventRecorder, EventType};

/// Tells events of the node. Clones are the same.
#[derive(Clone)]
pub(in crate::agent) struct NodeEvents {
    recorder: EventRecorder,
    node: Arc<Mutex<ObjectReference>>,
}

impl NodeEvents {
    pub(in crate::agent) fn new(recorder: EventRecorder, node: &str) -> Self {
        let node = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        NodeEvents {
            recorder,
            node: Arc::new(Mutex::new(node)),
        }
    }

    /// From now on the node is told with its uid.
    pub(super) fn is(&self, uid: &str) {
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        node.uid = Some(uid.to_owned());
    }

    pub(in crate::agent) fn tell(&self, kind: EventType, reason: &str, message: impl Into<String>) {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.recorder.event(&node, kind, reason, reason, message);
    }

    /// That the node is now what the reason says.
    pub(super) fn status(&self, reason: &str) {
        let name = {
            let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
            node.name.clone().unwrap_or_default()
        };
        self.tell(
            EventType::Normal,
            reason,
            format!("Node {name} status is now: {reason}"),
        );
    }
}
