//! Secrets as files.

use k8s_openapi::api::core::v1::{KeyToPath, Secret, SecretVolumeSource};

use super::{files::Files, recipe::Kitchen};

/// The files of a volume.
pub(super) async fn files(kitchen: &Kitchen<'_>, source: &SecretVolumeSource) -> Result<Files, String> {
    let name = source.secret_name.as_deref().unwrap_or_default();
    let items = source.items.as_deref().unwrap_or_default();
    let is_optional = source.optional == Some(true);
    projection(kitchen, name, items, source.default_mode, is_optional).await
}

/// The files of a secret.
pub(super) async fn projection(
    kitchen: &Kitchen<'_>,
    name: &str,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<Files, String> {
    let secret = kitchen.sources.secret(kitchen.namespace, name).await;
    match secret.map_err(|error| error.to_string())? {
        Some(secret) => of(&secret, items, default_mode, is_optional),
        None if is_optional => Ok(Files::default()),
        None => Err(format!("secret {name:?} not found")),
    }
}

fn of(
    secret: &Secret,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<Files, String> {
    let entries = secret.data.iter().flatten();
    let entries = entries
        .map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()))
        .collect();
    Files::of_entries(&entries, items, default_mode, is_optional, |key| {
        format!("references non-existent secret key: {key}")
    })
}
