//! How the status of a stateful set is written.

use serde_json::{Value, json};

use crate::{objects::StatefulStatus, written};

/// Writes a status over the one of a version. Conditions are others' to write.
pub(super) fn patch(status: &StatefulStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": status.replicas,
            "readyReplicas": written::count(status.ready_replicas),
            "currentReplicas": written::count(status.current_replicas),
            "updatedReplicas": written::count(status.updated_replicas),
            "availableReplicas": status.available_replicas,
            "currentRevision": status.current_revision,
            "updateRevision": status.update_revision,
            "collisionCount": status.collision_count,
        },
    })
}
