//! How the status of a daemon set is written.

use serde_json::{Value, json};

use crate::{objects::DaemonStatus, written};

/// Writes a status over the one of a version. Conditions are others' to write.
pub(super) fn patch(status: &DaemonStatus, version: &str) -> Value {
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "currentNumberScheduled": status.current_number_scheduled,
            "numberMisscheduled": status.number_misscheduled,
            "desiredNumberScheduled": status.desired_number_scheduled,
            "numberReady": status.number_ready,
            "observedGeneration": status.observed_generation,
            "updatedNumberScheduled": written::count(status.updated_number_scheduled),
            "numberAvailable": written::count(status.number_available),
            "numberUnavailable": written::count(status.number_unavailable),
            "collisionCount": status.collision_count,
        },
    })
}
