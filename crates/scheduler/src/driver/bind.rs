//! A pod is bound to its node: first its volumes, then the pod itself.

use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use super::{ClaimStore, VOLUME_PATIENCE, api_writer::ApiWriter};
use crate::{
    interner::Text,
    object::{PersistentVolume, PersistentVolumeClaim, Pod},
    plugins::PodVolumes,
};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Binds a pod; the error is the message for the pod's event.
// upstream: pkg/scheduler/schedule_one.go bindingCycle
pub(super) async fn bind(
    writer: &ApiWriter,
    claims: &ClaimStore,
    pod: &Pod,
    node: &Text,
    volumes: &PodVolumes,
) -> Result<(), String> {
    if !volumes.bind.is_empty() || !volumes.provision.is_empty() {
        let why = |reason| format!("running PreBind plugin \"VolumeBinding\": {reason}");
        // Volumes take their time; who adds and removes nodes is to know meanwhile where the pod will be.
        writer.nominating_info(pod, node).await;
        write_volumes(writer, node, volumes).await.map_err(why)?;
        wait(claims, node, volumes)
            .await
            .map_err(|reason| why(format!("binding volumes: {reason}")))?;
    }
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": &*pod.name, "namespace": &*pod.namespace, "uid": &*pod.uid},
        "target": {"kind": "Node", "name": &**node},
    });
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
    let bound = writer.post(&path, &binding).await;
    bound.map_err(|error| format!("running Bind plugin \"DefaultBinder\": {}", error_message(&error)))
}

/// The server's message, without the request.
pub(super) fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

// upstream: pkg/scheduler/framework/plugins/volumebinding/binder.go BindPodVolumes, bindAPIUpdate
async fn write_volumes(writer: &ApiWriter, node: &Text, volumes: &PodVolumes) -> Result<(), String> {
    for (volume, claim) in &volumes.bind {
        if let Some(patch) = for_claim(volume, claim) {
            let path = format!("/api/v1/persistentvolumes/{}", volume.name);
            writer
                .merge(&path, &patch)
                .await
                .map_err(|error| error_message(&error))?;
        }
    }
    for claim in volumes
        .provision
        .iter()
        .filter(|claim| claim.node.as_ref() != Some(node))
    {
        let patch = json!({"metadata": {
            "resourceVersion": &*claim.version, "annotations": {SELECTED_NODE: &**node},
        }});
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
            claim.namespace, claim.name
        );
        writer
            .merge(&path, &patch)
            .await
            .map_err(|error| error_message(&error))?;
    }
    Ok(())
}

/// What makes a volume that of a claim; nothing when it is already.
fn for_claim(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<serde_json::Value> {
    let promised = volume.claim.as_ref().filter(|known| known.is(claim));
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
async fn wait(claims: &ClaimStore, node: &Text, volumes: &PodVolumes) -> Result<(), String> {
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
            let stored = claims.get(&key);
            let Some(now) = stored.as_ref().and_then(|stored| stored.kept()) else {
                return Err(format!("persistentvolumeclaim \"{}\" not found", claim.name));
            };
            let reselected = now.version != claim.version && now.node.as_ref() != Some(node);
            if volumes.provision.iter().any(|made| made.uid == claim.uid) && !now.bound && reselected {
                return Err(format!("provisioning failed for PVC \"{}\"", claim.name));
            }
            open |= !now.bound;
        }
        if !open {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err("context deadline exceeded".into());
        }
        sleep(LOOK_EVERY).await;
    }
}
