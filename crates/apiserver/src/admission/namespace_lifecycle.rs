//! Nothing is created in a namespace that is not there, or that is going; and some namespaces stay.

use k3_api::{
    kinds::builtin,
    rules::Tree,
    status::{Cause, Grouped, Status},
};

use super::{Attributes, Operation, Plugin};
use crate::{cache::Caches, registry::Resource};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn admit(&self, attributes: &mut Attributes<'_>, caches: &Caches) -> Result<(), Status> {
        let kind = attributes.resource.kind;
        let name = attributes.object.at("metadata").text("name");
        if kind.kind == "Namespace" && kind.group.is_empty() {
            if attributes.operation == Operation::Delete && IMMORTAL.contains(&name) {
                let namespaces = Grouped::new("", "namespaces");
                return Err(Status::forbidden(
                    namespaces,
                    name,
                    "this namespace may not be deleted",
                ));
            }
            return Ok(());
        }
        if attributes.namespace.is_empty()
            || attributes.operation == Operation::Delete
            || is_review(attributes)
        {
            return Ok(());
        }
        let namespaces = builtin()
            .resource("", "v1", "namespaces")
            .expect("the kind is built in");
        let namespaces = Resource::of(namespaces, caches);
        let key = namespaces.key("", attributes.namespace)?;
        let Some(namespace) = namespaces.cache.get(&key) else {
            return Err(namespaces.not_found(attributes.namespace));
        };
        if attributes.operation != Operation::Create
            || namespace.tree().way("status").text("phase") != "Terminating"
        {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            attributes.namespace
        );
        let mut status = Status::forbidden(attributes.resource.grouped(), name, why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {} is being terminated", attributes.namespace),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }
}

/// Whether somebody asks about a namespace rather than puts something there.
fn is_review(attributes: &Attributes<'_>) -> bool {
    attributes.resource.kind.group == "authorization.k8s.io"
}
