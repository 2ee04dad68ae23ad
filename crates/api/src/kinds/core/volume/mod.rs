//! The volumes of pods.

use serde_json::Value;

use crate::{field::Path, rules::Errors};

/// Fills in what was left out of a volume.
pub(crate) fn default_volume(volume: &mut Value) {
    let _ = volume;
}

/// What is wrong with the volumes of a pod.
pub(crate) fn validate_volumes(volumes: &[Value], at: &Path<'_>, pod_metadata: &Value, errors: &mut Errors) {
    let _ = (volumes, at, pod_metadata, errors);
}
