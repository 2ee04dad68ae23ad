//! Config maps as files.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, KeyToPath};

use super::{files::Files, recipe::Kitchen};

/// The files of a volume.
pub(super) async fn files(kitchen: &Kitchen<'_>, source: &ConfigMapVolumeSource) -> Result<Files, String> {
    let items = source.items.as_deref().unwrap_or_default();
    let is_optional = source.optional == Some(true);
    projection(kitchen, &source.name, items, source.default_mode, is_optional).await
}

/// The files of a config map.
pub(super) async fn projection(
    kitchen: &Kitchen<'_>,
    name: &str,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<Files, String> {
    let map = kitchen.sources.config_map(kitchen.namespace, name).await;
    match map.map_err(|error| error.to_string())? {
        Some(map) => of(&map, items, default_mode, is_optional),
        None if is_optional => Ok(Files::default()),
        None => Err(format!("configmap {name:?} not found")),
    }
}

fn of(
    map: &ConfigMap,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<Files, String> {
    let texts = map
        .data
        .iter()
        .flatten()
        .map(|(key, text)| (key.as_str(), text.as_bytes()));
    let bytes = map
        .binary_data
        .iter()
        .flatten()
        .map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()));
    // A key is in one of them only.
    let entries: BTreeMap<_, _> = texts.chain(bytes).collect();
    Files::of_entries(&entries, items, default_mode, is_optional, |key| {
        format!("configmap references non-existent config key: {key}")
    })
}
