//! Fields of the pod as files.

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};

use super::files::{File, Files, USUAL_MODE, all_of};
use crate::{Facts, environment};

/// The files that are asked for.
pub(super) fn files(
    pod: &Pod,
    facts: &Facts,
    items: &[DownwardAPIVolumeFile],
    default_mode: Option<i32>,
) -> Result<Files, String> {
    let mut files = Files::default();
    let mut errors = Vec::new();
    for item in items {
        let value = if let Some(field) = &item.field_ref {
            environment::of_metadata(&field.field_path, pod)
        } else if let Some(resource) = &item.resource_field_ref {
            environment::of_file(resource, pod, facts)
        } else {
            Ok(String::new())
        };
        let mode = item.mode.or(default_mode).unwrap_or(USUAL_MODE);
        let put = value.and_then(|value| files.put(&item.path, File::new(value.into_bytes(), mode)));
        errors.extend(put.err());
    }
    all_of(errors)?;
    Ok(files)
}
