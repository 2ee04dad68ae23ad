//! Writes the status of a StatefulSet.

use serde_json::{Value, json};

use crate::{objects::StatefulStatus, patch_values};

/// The patch that replaces the status at a resourceVersion. Conditions are not touched: this controller has none.
// upstream: pkg/controller/statefulset/stateful_set_status_updater.go UpdateStatefulSetStatus
pub(super) fn status_patch(status: &StatefulStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "observedGeneration": status.observed_generation,
            "replicas": status.replicas,
            "readyReplicas": patch_values::count(status.ready_replicas),
            "currentReplicas": patch_values::count(status.current_replicas),
            "updatedReplicas": patch_values::count(status.updated_replicas),
            "availableReplicas": status.available_replicas,
            "currentRevision": status.current_revision,
            "updateRevision": status.update_revision,
            "collisionCount": status.collision_count,
        },
    })
}
