//! Config maps, secrets, fields of the pod and tokens, in one volume.

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, Pod, PodSecurityContext, ProjectedVolumeSource, SecurityContext,
    ServiceAccountTokenProjection, VolumeProjection,
};

use super::{
    config_map, downward,
    files::{File, Files, USUAL_MODE, all_of},
    recipe::Kitchen,
    secret, trust_bundle,
};
use crate::PodIdentity;

/// How long a token lives that says nothing else.
const TOKEN_SECONDS: i64 = 3600;

/// The files of a volume. All that is wrong is told at once.
pub(super) async fn files(kitchen: &Kitchen<'_>, source: &ProjectedVolumeSource) -> Result<Files, String> {
    let mut files = Files::default();
    let mut errors = Vec::new();
    for projection in source.sources.iter().flatten() {
        match of(kitchen, projection, source.default_mode).await {
            Ok(more) => files.put_all(more),
            Err(error) => errors.push(error),
        }
    }
    all_of(errors)?;
    Ok(files)
}

async fn of(
    kitchen: &Kitchen<'_>,
    projection: &VolumeProjection,
    mode: Option<i32>,
) -> Result<Files, String> {
    if let Some(source) = &projection.secret {
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        secret::projection(kitchen, &source.name, items, mode, is_optional).await
    } else if let Some(source) = &projection.config_map {
        let items = source.items.as_deref().unwrap_or_default();
        let is_optional = source.optional == Some(true);
        config_map::projection(kitchen, &source.name, items, mode, is_optional).await
    } else if let Some(source) = &projection.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        downward::files(kitchen.pod, kitchen.facts, items, mode)
    } else if let Some(source) = &projection.service_account_token {
        token(kitchen, source, mode).await
    } else if let Some(source) = &projection.cluster_trust_bundle {
        trusted(kitchen, source, mode).await
    } else if projection.pod_certificate.is_some() {
        Err("pod certificates are not supported by this node".to_owned())
    } else {
        Ok(Files::default())
    }
}

async fn token(
    kitchen: &Kitchen<'_>,
    source: &ServiceAccountTokenProjection,
    mode: Option<i32>,
) -> Result<Files, String> {
    let spec = kitchen.pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.as_deref());
    let audience = source.audience.as_deref().filter(|audience| !audience.is_empty());
    let seconds = source.expiration_seconds.unwrap_or(TOKEN_SECONDS);
    let identity = PodIdentity::of(kitchen.pod);
    let account = account.filter(|account| !account.is_empty()).unwrap_or("default");
    let token = kitchen.sources.token(&identity, account, audience, seconds).await;
    let token = token.map_err(|error| error.to_string())?;
    private(kitchen.pod, &source.path, token.text.into_bytes(), mode)
}

async fn trusted(
    kitchen: &Kitchen<'_>,
    source: &ClusterTrustBundleProjection,
    mode: Option<i32>,
) -> Result<Files, String> {
    let all = kitchen.sources.trust_bundles().await;
    let all = all.map_err(|error| error.to_string())?;
    let certificates = trust_bundle::certificates(&all, source)?;
    private(kitchen.pod, &source.path, certificates.into_bytes(), mode)
}

/// A file that only the pod's own user, or its group, reads, if it has one.
fn private(pod: &Pod, path: &str, data: Vec<u8>, mode: Option<i32>) -> Result<Files, String> {
    let user = only_user(pod);
    let group = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.security_context.as_ref()?.fs_group);
    // The group's right to read is added with the group itself.
    let mode = if user.is_some() || group.is_some() {
        0o600
    } else {
        mode.unwrap_or(USUAL_MODE)
    };
    let mut files = Files::default();
    let user = user.and_then(|user| u32::try_from(user).ok());
    files.put(
        path,
        File {
            user,
            ..File::new(data, mode)
        },
    )?;
    Ok(files)
}

/// The user that all containers of a pod run as, if they say so and there is one.
fn only_user(pod: &Pod) -> Option<i64> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec
        .security_context
        .as_ref()
        .and_then(|context: &PodSecurityContext| context.run_as_user);
    let user = |context: Option<&SecurityContext>| context.and_then(|context| context.run_as_user).or(of_pod);
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
