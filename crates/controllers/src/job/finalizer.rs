//! The finalizer that keeps a pod until it is counted.

use k3_workloads::{OwnerReference, Pod};
use serde_json::json;

use super::pods::FINALIZER;
use crate::{
    resource::PODS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Removes the finalizer from a pod. Returns the new resourceVersion; `None` if the pod is deleted.
// upstream: pkg/controller/job/job_controller.go removeTrackingFinalizerPatch
pub(super) async fn remove_finalizer(writer: &ApiWriter, pod: &Pod) -> kube::Result<Option<Box<str>>> {
    let finalizers = &pod.metadata.finalizers;
    let Some(position) = finalizers.iter().position(|finalizer| &**finalizer == FINALIZER) else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{position}");
    let steps = json!([
        // The UID test excludes another pod with the same name.
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]);
    resource_version_if_found(writer.json_patch(pod_ref(pod), &steps).await)
}

/// Adopts a pod: adds the controller reference and the finalizer. Returns the new resourceVersion; `None` if the pod is
/// deleted.
// upstream: pkg/controller/controller_ref_manager.go AdoptPod; Jobs add the tracking finalizer in the same patch
pub(super) async fn adopt(
    writer: &ApiWriter,
    pod: &Pod,
    owner: &OwnerReference,
) -> kube::Result<Option<Box<str>>> {
    let metadata = &pod.metadata;
    let owners: Vec<_> = metadata.owner_references.iter().chain([owner]).collect();
    let mut finalizers: Vec<&str> = metadata.finalizers.iter().map(|known| &**known).collect();
    if !metadata.has_finalizer(FINALIZER) {
        finalizers.push(FINALIZER);
    }
    let patch = json!({"metadata": {
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
        "ownerReferences": owners,
        "finalizers": finalizers,
    }});
    resource_version_if_found(writer.merge_patch(pod_ref(pod), &patch).await)
}

fn pod_ref(pod: &Pod) -> ObjectRef<'_> {
    ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name)
}

fn resource_version_if_found(patched: kube::Result<WrittenObject>) -> kube::Result<Option<Box<str>>> {
    match patched {
        Ok(patched) => Ok(Some(patched.metadata.resource_version)),
        Err(error) if has_status_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}
