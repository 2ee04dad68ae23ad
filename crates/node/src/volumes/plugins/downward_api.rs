//! `downwardAPI` volumes: files from fields and resources of the pod.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};

use crate::{
    NodeFacts, environment,
    volumes::{
        files_mounter::{FileMedium, FilesMounter},
        payload::{DEFAULT_FILE_MODE, FileProjection, VolumePayload, aggregate_errors},
        plugin::{Mounter, MounterError, VolumeContext, VolumePlugin},
        spec::VolumeSpec,
    },
};

pub(super) struct DownwardApiPlugin;

// --- DownwardApiPlugin ---

#[async_trait]
impl VolumePlugin for DownwardApiPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/downward-api"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.downward_api.is_some())
    }

    // upstream: pkg/volume/downwardapi/downwardapi.go RequiresRemount
    fn requires_remount(&self) -> bool {
        true
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.downward_api.clone());
        let source = source.unwrap_or_default();
        let items = source.items.as_deref().unwrap_or_default();
        let payload = collect_data(context.pod, context.facts, items, source.default_mode)?;
        let medium = FileMedium::memory(context);
        let mounter = FilesMounter::new(context, self.plugin_name(), spec.name(), payload, medium);
        Ok(Box::new(mounter))
    }
}

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
                .map_err(|error| error.to_string())
        } else if let Some(resource) = &item.resource_field_ref {
            environment::extract_resource_value_by_container_name(resource, pod, facts)
                .map_err(|error| error.to_string())
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
