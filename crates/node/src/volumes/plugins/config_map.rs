//! `configMap` volumes: files from a ConfigMap.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath};

use crate::volumes::{
    files_mounter::{FileMedium, FilesMounter},
    payload::VolumePayload,
    plugin::{Mounter, MounterError, VolumeContext, VolumePlugin},
    spec::VolumeSpec,
};

pub(super) struct ConfigMapPlugin;

// --- ConfigMapPlugin ---

#[async_trait]
impl VolumePlugin for ConfigMapPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/configmap"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.config_map.is_some())
    }

    // upstream: pkg/volume/configmap/configmap.go RequiresRemount
    fn requires_remount(&self) -> bool {
        true
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.config_map.clone());
        let source = source.unwrap_or_default();
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        let payload =
            projection_payload(context, &source.name, items, source.default_mode, is_optional).await?;
        let medium = FileMedium::Disk;
        let mounter = FilesMounter::new(context, self.plugin_name(), spec.name(), payload, medium);
        Ok(Box::new(mounter))
    }
}

/// Files of a ConfigMap, for `configMap` volumes and projections.
// upstream: pkg/volume/configmap/configmap.go SetUpAt
pub(super) async fn projection_payload(
    context: &VolumeContext<'_>,
    name: &str,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<VolumePayload, String> {
    let map = context.sources.config_map(context.namespace, name).await;
    match map.map_err(|error| error.to_string())? {
        Some(map) => make_payload(&map, items, default_mode, is_optional),
        None if is_optional => Ok(VolumePayload::default()),
        None => Err(format!("configmap {name:?} not found")),
    }
}

// upstream: pkg/volume/configmap/configmap.go MakePayload
fn make_payload(
    map: &ConfigMap,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<VolumePayload, String> {
    let data = map
        .data
        .iter()
        .flatten()
        .map(|(key, text)| (key.as_str(), text.as_bytes()));
    let binary_data = map
        .binary_data
        .iter()
        .flatten()
        .map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()));
    // Validation ensures that no key is in both.
    let entries: BTreeMap<_, _> = data.chain(binary_data).collect();
    VolumePayload::from_entries(&entries, items, default_mode, is_optional, |key| {
        format!("configmap references non-existent config key: {key}")
    })
}
