//! Writes the status of a DaemonSet.

use serde_json::{Value, json};

use crate::{objects::DaemonStatus, patch_values};

/// The patch that replaces the status at a resourceVersion. Conditions are not touched: this controller has none.
// upstream: pkg/controller/daemon/daemon_controller.go storeDaemonSetStatus
pub(super) fn status_patch(status: &DaemonStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "currentNumberScheduled": status.current_number_scheduled,
            "numberMisscheduled": status.number_misscheduled,
            "desiredNumberScheduled": status.desired_number_scheduled,
            "numberReady": status.number_ready,
            "observedGeneration": status.observed_generation,
            "updatedNumberScheduled": patch_values::count(status.updated_number_scheduled),
            "numberAvailable": patch_values::count(status.number_available),
            "numberUnavailable": patch_values::count(status.number_unavailable),
            "collisionCount": status.collision_count,
        },
    })
}
