//! A pod is bound to its node: first its volumes, then the pod itself.

use kubecontroller::writer::error_message;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::{ClaimStore, VOLUME_PATIENCE, api_writer::SchedulerWriter};
use crate::{
    interner::Text,
    object::{PersistentVolume, PersistentVolumeClaim, Pod},
    plugins::PodVolumes,
};

const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a pod was not bound. The text is that of the pod's event.
#[derive(Debug, thiserror::Error)]
pub(super) enum BindError {
    #[error("running PreBind plugin \"VolumeBinding\": {}", error_message(.0))]
    WriteVolumes(#[source] kube::Error),
    #[error("running PreBind plugin \"VolumeBinding\": binding volumes: {0}")]
    BindVolumes(#[from] BindVolumesError),
    #[error("running Bind plugin \"DefaultBinder\": {}", error_message(.0))]
    WriteBinding(#[source] kube::Error),
}

/// Why the claims of a pod were not bound by others.
#[derive(Debug, thiserror::Error)]
pub(super) enum BindVolumesError {
    #[error("persistentvolumeclaim \"{0}\" not found")]
    ClaimNotFound(Text),
    #[error("provisioning failed for PVC \"{0}\"")]
    ProvisioningFailed(Text),
    #[error("context deadline exceeded")]
    DeadlineExceeded,
}

/// Binds a pod.
// upstream: pkg/scheduler/schedule_one.go bindingCycle
pub(super) async fn bind(
    writer: &SchedulerWriter,
    claims: &ClaimStore,
    pod: &Pod,
    node: &Text,
    volumes: &PodVolumes,
) -> Result<(), BindError> {
    if !volumes.bind.is_empty() || !volumes.provision.is_empty() {
        // Volumes take their time; who adds and removes nodes is to know meanwhile where the pod will be.
        writer.nominating_info(pod, node).await;
        write_volumes(writer, node, volumes)
            .await
            .map_err(BindError::WriteVolumes)?;
        wait_for_claims(claims, node, volumes).await?;
    }
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": &*pod.name, "namespace": &*pod.namespace, "uid": &*pod.uid},
        "target": {"kind": "Node", "name": &**node},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
    let bound = writer.post(&path, &binding).await;
    bound.map_err(BindError::WriteBinding)
}

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go BindPodVolumes, bindAPIUpdate
async fn write_volumes(writer: &SchedulerWriter, node: &Text, volumes: &PodVolumes) -> kube::Result<()> {
    for (volume, claim) in &volumes.bind {
        if let Some(patch) = for_claim(volume, claim) {
            let path = format!("/api/v1/persistentvolumes/{}", volume.name);
            writer.merge(&path, &patch).await?;
        }
    }
    for claim in volumes
        .provision
        .iter()
        .filter(|claim| claim.node.as_ref() != Some(node))
    {
        let patch = json!({"metadata": {
            "resourceVersion": &*claim.version, "annotations": {k3_workloads::PersistentVolumeClaim::SELECTED_NODE: &**node},
        }});
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
            claim.namespace, claim.name
        );
        writer.merge(&path, &patch).await?;
    }
    Ok(())
}

/// What makes a volume that of a claim; nothing when it is already.
fn for_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<serde_json::Value> {
    let promised = volume.claim.as_ref().filter(|known| claim.is_in(known));
    if promised.is_some_and(|known| *known.uid == *claim.uid) {
        return None;
    }
    let mut patch = json!({
        "metadata": {"resourceVersion": &*volume.version},
        "spec": {"claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": &*claim.namespace,
            "name": &*claim.name, "uid": &*claim.uid, "resourceVersion": &*claim.version,
        }},
    });
    if promised.is_none() {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    Some(patch)
}

/// Until others have bound all claims.
// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go checkBindings
async fn wait_for_claims(
    claims: &ClaimStore,
    node: &Text,
    volumes: &PodVolumes,
) -> Result<(), BindVolumesError> {
    let deadline = Instant::now() + VOLUME_PATIENCE;
    let all = || {
        volumes
            .bind
            .iter()
            .map(|(_, claim)| claim)
            .chain(&volumes.provision)
    };
    loop {
        let mut open = false;
        for claim in all() {
            let key = kubecontroller::Key::new(&claim.namespace, &claim.name);
            let Some(now) = claims.get(&key) else {
                return Err(BindVolumesError::ClaimNotFound(claim.name.clone()));
            };
            let is_bound = now.is_fully_bound();
            let is_changed = now.metadata.resource_version != claim.version;
            let is_reselected = is_changed && now.selected_node() != Some(&**node);
            if volumes.provision.iter().any(|made| made.uid == claim.uid) && !is_bound && is_reselected {
                return Err(BindVolumesError::ProvisioningFailed(claim.name.clone()));
            }
            open |= !is_bound;
        }
        if !open {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(BindVolumesError::DeadlineExceeded);
        }
        sleep(LOOK_EVERY).await;
    }
}
