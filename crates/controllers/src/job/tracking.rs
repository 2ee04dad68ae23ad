//! The finalizer that holds a pod back until its end is counted.

use serde_json::json;

use super::pods::FINALIZER;
use crate::{
    objects::{Owner, Pod},
    resource::PODS,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};

/// Takes the finalizer from a pod. Gives the pod's version then; nothing if the pod is gone.
pub(super) async fn release(writer: &ApiWriter, pod: &Pod) -> kube::Result<Option<Box<str>>> {
    let finalizers = &pod.metadata.finalizers;
    let Some(position) = finalizers.iter().position(|finalizer| &**finalizer == FINALIZER) else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{position}");
    let steps = json!([
        // Not another pod that has the name by now.
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]);
    there(writer.json_patch(place(pod), &steps).await)
}

/// Gives a pod an owner that controls it, and the finalizer with it, if nobody was faster. Gives the pod's version then;
/// nothing if it is gone.
pub(super) async fn adopt(writer: &ApiWriter, pod: &Pod, owner: &Owner) -> kube::Result<Option<Box<str>>> {
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
    there(writer.merge_patch(place(pod), &patch).await)
}

fn place(pod: &Pod) -> ObjectRef<'_> {
    ObjectRef::new(&PODS, &pod.metadata.namespace, &pod.metadata.name)
}

fn there(patched: kube::Result<WrittenObject>) -> kube::Result<Option<Box<str>>> {
    match patched {
        Ok(patched) => Ok(Some(patched.metadata.resource_version)),
        Err(error) if has_status_code(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}
