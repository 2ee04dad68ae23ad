//! `downwardAPI` volumes: files from fields and resources of the pod.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};

use super::payload::{DEFAULT_FILE_MODE, FileProjection, VolumePayload, aggregate_errors};
use crate::{NodeFacts, environment};

/// Files of a downward API volume or projection. Reports the errors of all items together.
// upstream: pkg/volume/downwardapi/downwardapi.go CollectData
pub(super) fn collect_data(
    pod: &Pod,
    facts: &NodeFacts,
    items: &[DownwardAPIVolumeFile],
    default_mode: Option<i32>,
) -> Result<VolumePayload, String> {
    let mut payload = VolumePayload::default();
    let mut errors = Vec::new();
    for item in items {
        let value = if let Some(field) = &item.field_ref {
            environment::extract_field_path_as_string(&field.field_path, pod)
        } else if let Some(resource) = &item.resource_field_ref {
            environment::extract_resource_value_by_container_name(resource, pod, facts)
        } else {
            Ok(String::new())
        };
        let mode = item.mode.or(default_mode).unwrap_or(DEFAULT_FILE_MODE);
        let inserted =
            value.and_then(|value| payload.insert(&item.path, FileProjection::new(value.into_bytes(), mode)));
        errors.extend(inserted.err());
    }
    aggregate_errors(errors)?;
    Ok(payload)
}
