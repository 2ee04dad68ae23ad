//! `secret` volumes: files from a Secret.

use k8s_openapi::api::core::v1::{KeyToPath, Secret, SecretVolumeSource};

use super::{mount_plan::VolumeContext, payload::VolumePayload};

/// Files of a `secret` volume.
pub(super) async fn volume_payload(
    context: &VolumeContext<'_>,
    source: &SecretVolumeSource,
) -> Result<VolumePayload, String> {
    let name = source.secret_name.as_deref().unwrap_or_default();
    let items = source.items.as_deref().unwrap_or_default();
    let is_optional = source.optional == Some(true);
    projection_payload(context, name, items, source.default_mode, is_optional).await
}

/// Files of a Secret, for `secret` volumes and projections.
// upstream: pkg/volume/secret/secret.go SetUpAt
pub(super) async fn projection_payload(
    context: &VolumeContext<'_>,
    name: &str,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<VolumePayload, String> {
    let secret = context.sources.secret(context.namespace, name).await;
    match secret.map_err(|error| error.to_string())? {
        Some(secret) => make_payload(&secret, items, default_mode, is_optional),
        None if is_optional => Ok(VolumePayload::default()),
        None => Err(format!("secret {name:?} not found")),
    }
}

// upstream: pkg/volume/secret/secret.go MakePayload
fn make_payload(
    secret: &Secret,
    items: &[KeyToPath],
    default_mode: Option<i32>,
    is_optional: bool,
) -> Result<VolumePayload, String> {
    let entries = secret.data.iter().flatten();
    let entries = entries
        .map(|(key, bytes)| (key.as_str(), bytes.0.as_slice()))
        .collect();
    VolumePayload::from_entries(&entries, items, default_mode, is_optional, |key| {
        format!("references non-existent secret key: {key}")
    })
}
