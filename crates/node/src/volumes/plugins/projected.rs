//! `projected` volumes: ConfigMaps, Secrets, downward API, service account tokens and cluster trust bundles in one volume.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, Pod, PodSecurityContext, ProjectedVolumeSource, SecurityContext,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::{cluster_trust_bundle, config_map, downward_api, secret};
use crate::{
    PodIdentity,
    volumes::{
        files_mounter::{FileMedium, FilesMounter},
        payload::{DEFAULT_FILE_MODE, FileProjection, VolumePayload, aggregate_errors},
        plugin::{Mounter, MounterError, VolumeContext, VolumePlugin},
        spec::VolumeSpec,
    },
};

/// Default of `expirationSeconds` of a token.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;

pub(super) struct ProjectedPlugin;

// --- ProjectedPlugin ---

#[async_trait]
impl VolumePlugin for ProjectedPlugin {
    fn plugin_name(&self) -> &'static str {
        "kubernetes.io/projected"
    }

    fn can_support(&self, spec: &VolumeSpec<'_>) -> bool {
        spec.volume().is_some_and(|volume| volume.projected.is_some())
    }

    // upstream: pkg/volume/projected/projected.go RequiresRemount
    fn requires_remount(&self) -> bool {
        true
    }

    async fn new_mounter(
        &self,
        spec: &VolumeSpec<'_>,
        context: &VolumeContext<'_>,
    ) -> Result<Box<dyn Mounter>, MounterError> {
        let source = spec.volume().and_then(|volume| volume.projected.clone());
        let source = source.unwrap_or_default();
        let payload = collect_data(context, &source).await?;
        let medium = FileMedium::memory(context);
        let mounter = FilesMounter::new(context, self.plugin_name(), spec.name(), payload, medium);
        Ok(Box::new(mounter))
    }
}

/// Files of a projected volume. Reports the errors of all sources together.
// upstream: pkg/volume/projected/projected.go collectData
async fn collect_data(
    context: &VolumeContext<'_>,
    source: &ProjectedVolumeSource,
) -> Result<VolumePayload, String> {
    let mut payload = VolumePayload::default();
    let mut errors = Vec::new();
    for projection in source.sources.iter().flatten() {
        match projection_payload(context, projection, source.default_mode).await {
            Ok(files) => payload.extend(files),
            Err(error) => errors.push(error),
        }
    }
    aggregate_errors(errors)?;
    Ok(payload)
}

async fn projection_payload(
    context: &VolumeContext<'_>,
    projection: &VolumeProjection,
    mode: Option<i32>,
) -> Result<VolumePayload, String> {
    if let Some(source) = &projection.secret {
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        secret::projection_payload(context, &source.name, items, mode, is_optional).await
    } else if let Some(source) = &projection.config_map {
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        config_map::projection_payload(context, &source.name, items, mode, is_optional).await
    } else if let Some(source) = &projection.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        downward_api::collect_data(context.pod, context.facts, items, mode)
    } else if let Some(source) = &projection.service_account_token {
        token_payload(context, source, mode).await
    } else if let Some(source) = &projection.cluster_trust_bundle {
        trust_bundle_payload(context, source, mode).await
    } else if projection.pod_certificate.is_some() {
        Err("pod certificates are not supported by this node".to_owned())
    } else {
        Ok(VolumePayload::default())
    }
}

async fn token_payload(
    context: &VolumeContext<'_>,
    source: &ServiceAccountTokenProjection,
    mode: Option<i32>,
) -> Result<VolumePayload, String> {
    let spec = context.pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.as_deref());
    let audience = source.audience.as_deref().filter(|audience| !audience.is_empty());
    let seconds = source.expiration_seconds.unwrap_or(DEFAULT_TOKEN_SECONDS);
    let identity = PodIdentity::of(context.pod);
    let account = account.filter(|account| !account.is_empty()).unwrap_or("default");
    let token = context
        .sources
        .service_account_token(&identity, account, audience, seconds)
        .await;
    let token = token.map_err(|error| error.to_string())?;
    private_file(context.pod, &source.path, token.token.into_bytes(), mode)
}

async fn trust_bundle_payload(
    context: &VolumeContext<'_>,
    source: &ClusterTrustBundleProjection,
    mode: Option<i32>,
) -> Result<VolumePayload, String> {
    let bundles = context.sources.cluster_trust_bundles().await;
    let bundles = bundles.map_err(|error| error.to_string())?;
    let certificates = cluster_trust_bundle::trust_anchors(&bundles, source);
    let certificates = certificates.map_err(|error| error.to_string())?;
    private_file(context.pod, &source.path, certificates.into_bytes(), mode)
}

/// A file that only the user of the pod, or its fsGroup, can read. If the pod has neither, the file has the default mode.
fn private_file(pod: &Pod, path: &str, data: Vec<u8>, mode: Option<i32>) -> Result<VolumePayload, String> {
    let user = fs_user(pod);
    let group = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref()?.fs_group);
    // Setting the fsGroup adds the read permission of the group.
    let mode = if user.is_some() || group.is_some() {
        0o600
    } else {
        mode.unwrap_or(DEFAULT_FILE_MODE)
    };
    let mut payload = VolumePayload::default();
    let fs_user = user.and_then(|user| u32::try_from(user).ok());
    payload.insert(
        path,
        FileProjection {
            fs_user,
            ..FileProjection::new(data, mode)
        },
    )?;
    Ok(payload)
}

/// The `runAsUser` of all containers of a pod; `None` if it is not set for all, or differs.
// upstream: pkg/volume/util/util.go FsUserFrom
fn fs_user(pod: &Pod) -> Option<i64> {
    let spec = pod.spec.as_ref()?;
    let pod_user = spec
        .security_context
        .as_ref()
        .and_then(|context: &PodSecurityContext| context.run_as_user);
    let user =
        |context: Option<&SecurityContext>| context.and_then(|context| context.run_as_user).or(pod_user);
    let init = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| user(container.security_context.as_ref()));
    let regular = spec
        .containers
        .iter()
        .map(|container| user(container.security_context.as_ref()));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.map(|container| user(container.security_context.as_ref()));
    let mut users = init.chain(regular).chain(ephemeral);
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}
