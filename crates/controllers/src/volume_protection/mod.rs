//! Volumes, claims and classes of attributes that are deleted while somebody uses them stay until nobody does: a finalizer
//! holds them.

mod claims;
mod classes;
#[cfg(test)]
mod tests;
mod volumes;

use kubecontroller::object::Object;
use serde_json::{Value, json};

pub(crate) use self::{
    claims::make as make_for_claims, classes::make as make_for_classes, volumes::make as make_for_volumes,
};
use crate::{
    objects::Meta,
    resource::Resource,
    writer::{ApiWriter, ObjectRef, has_status_code},
};

/// What is to be done with the finalizer of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// It is to hold the object when that will go.
    Add,
    /// The object may go, if nobody uses it.
    Consider,
    /// Nothing.
    Leave,
}

// --- Hold ---

impl Hold {
    fn of(object: &impl Object, finalizer: &str) -> Self {
        let is_held = object.finalizers().any(|name| name == finalizer);
        match (object.is_terminating(), is_held) {
            (false, false) => Hold::Add,
            (true, true) => Hold::Consider,
            _ => Hold::Leave,
        }
    }
}

/// Writes the finalizers of an object with one more, or one less.
async fn write(
    writer: &ApiWriter,
    resource: &Resource,
    meta: &Meta,
    finalizer: &str,
    is_held: bool,
) -> kube::Result<()> {
    let others = meta.finalizers.iter().map(|name| &**name);
    let others = others.filter(|name| *name != finalizer);
    let finalizers: Vec<&str> = others.chain(is_held.then_some(finalizer)).collect();
    let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}});
    let object_ref = ObjectRef::new(resource, &meta.namespace, &meta.name);
    match writer.update_with_merge::<Value>(object_ref, &patch).await {
        // It is gone, as it should be.
        Err(error) if has_status_code(&error, 404) => Ok(()),
        other => other.map(|_| ()),
    }
}
