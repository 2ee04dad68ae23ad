//! `secret` volumes: files from a Secret.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{KeyToPath, Secret};

use crate::volumes::{
    files_mounter::{FileMedium, FilesMounter},
    payload::VolumePayload,
    plugin::{Mounter, MounterError, VolumeContext, VolumePlugin},
    spec::VolumeSpec,
};

pub(super) struct SecretPlugin;

// --- SecretPlugin ---

#[async_trait]
impl VolumePlugin for SecretPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/secret"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.secret.is_some())
    }

    // upstream: pkg/volume/secret/secret.go RequiresRemount
    fn requires_remount(&self) -> bool {
        true
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.secret.clone());
        let source = source.unwrap_or_default();
        let name = source.secret_name.as_deref().unwrap_or_default();
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        let payload = projection_payload(context, name, items, source.default_mode, is_optional).await?;
        let medium = FileMedium::memory(context);
        let mounter = FilesMounter::new(context, self.plugin_name(), spec.name(), payload, medium);
        Ok(Box::new(mounter))
    }
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
