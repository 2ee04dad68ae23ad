//! Protection of volumes, claims and volume attributes classes: a finalizer keeps them while they are in use.

mod claims;
mod classes;
#[cfg(test)]
mod tests;
mod volumes;

use k3_workloads::ObjectMeta;
use kubecontroller::{
    object::Object,
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};
use serde_json::{Value, json};

pub(crate) use self::{
    claims::make as make_for_claims, classes::make as make_for_classes, volumes::make as make_for_volumes,
};
use crate::update::UpdateWithPatch;

/// What to do with the finalizer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalizerAction {
    /// Add it.
    Add,
    /// The object is being deleted: remove it if the object is not in use.
    RemoveIfUnused,
    Nothing,
}

/// A write of the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FinalizerChange {
    Add,
    Remove,
}

// --- FinalizerAction ---

impl FinalizerAction {
    fn of(object: &impl Object, finalizer: &str) -> Self {
        let add = object.finalizers().any(|name| name == finalizer);
        match (object.is_terminating(), add) {
            (false, false) => FinalizerAction::Add,
            (true, true) => FinalizerAction::RemoveIfUnused,
            _ => FinalizerAction::Nothing,
        }
    }
}

/// Adds or removes the finalizer.
// upstream: pkg/controller/volume/pvprotection/pv_protection_controller.go addFinalizer, removeFinalizer
async fn write_finalizers(
    writer: &ApiWriter,
    resource: &Resource,
    meta: &ObjectMeta,
    finalizer: &str,
    change: FinalizerChange,
) -> kube::Result<()> {
    let others = meta.finalizers.iter().map(|name| &**name);
    let others = others.filter(|name| *name != finalizer);
    let added = match change {
        FinalizerChange::Add => Some(finalizer),
        FinalizerChange::Remove => None,
    };
    let finalizers: Vec<&str> = others.chain(added).collect();
    let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}});
    let object_ref = ObjectRef::new(resource, &meta.namespace, &meta.name);
    match writer.update_with_merge::<Value>(object_ref, &patch).await {
        // The object was deleted.
        Err(error) if has_status_code(&error, 404) => Ok(()),
        other => other.map(|_| ()),
    }
}
