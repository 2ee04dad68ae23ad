//! The finalizer that holds a pod back until its end is counted.

use serde_json::{Value, json};

use super::pods::FINALIZER;
use crate::{
    objects::{Owner, Pod},
    resource::PODS,
    writer::{Made, Place, Writer, is},
};

/// Takes the finalizer from a pod. Gives the pod's version then; nothing if the pod is gone.
pub(super) async fn release(writer: &Writer, pod: &Pod) -> kube::Result<Option<Box<str>>> {
    let finalizers = &pod.metadata.finalizers;
    let Some(position) = finalizers.iter().position(|finalizer| &**finalizer == FINALIZER) else {
        return Ok(None);
    };
    let path = format!("/metadata/finalizers/{position}");
    let steps = json!([
        same(pod),
        {"op": "test", "path": path, "value": FINALIZER},
        {"op": "remove", "path": path},
    ]);
    patch(writer, pod, &steps).await
}

/// Gives a pod an owner that controls it, and the finalizer with it. Gives the pod's version then; nothing if it is gone.
pub(super) async fn adopt(writer: &Writer, pod: &Pod, owner: &Owner) -> kube::Result<Option<Box<str>>> {
    let append = |list: &str, is_empty: bool, item: Value| {
        let path = format!("/metadata/{list}");
        if is_empty {
            // Whoever was faster is not overwritten.
            vec![
                json!({"op": "test", "path": path, "value": null}),
                json!({"op": "add", "path": path, "value": [item]}),
            ]
        } else {
            vec![json!({"op": "add", "path": format!("{path}/-"), "value": item})]
        }
    };
    let metadata = &pod.metadata;
    let mut steps = vec![same(pod)];
    steps.extend(append(
        "ownerReferences",
        metadata.owner_references.is_empty(),
        json!(owner),
    ));
    if !metadata.has_finalizer(FINALIZER) {
        steps.extend(append(
            "finalizers",
            metadata.finalizers.is_empty(),
            json!(FINALIZER),
        ));
    }
    patch(writer, pod, &Value::Array(steps)).await
}

/// Not another pod that has the name by now.
fn same(pod: &Pod) -> Value {
    json!({"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid})
}

async fn patch(writer: &Writer, pod: &Pod, steps: &Value) -> kube::Result<Option<Box<str>>> {
    let place = Place::new(&PODS, &pod.metadata.namespace, &pod.metadata.name);
    match writer.patch::<Made>(place, steps).await {
        Ok(patched) => Ok(Some(patched.metadata.resource_version)),
        Err(error) if is(&error, 404) => Ok(None),
        Err(error) => Err(error),
    }
}
