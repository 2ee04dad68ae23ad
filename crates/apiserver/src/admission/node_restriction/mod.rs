//! `NodeRestriction`: a kubelet may write only its own Node and objects of its own pods.
//!
//! ```text
//! node         the node itself: its labels and taints
//! pod          mirror pods, and what becomes of the pods it runs
//! token        tokens of the service accounts of its pods
//! certificate  certificates for its pods, and for itself
//! ```

mod certificate;
mod node;
mod pod;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use k3_api::{
    go,
    status::{GroupResource, Status},
    strategy::{Tree, TreeMut},
};
use serde_json::Value;

use super::{AdmissionAttributes, AdmissionPlugin, Operation, object};
use crate::{
    authz::{AuthorizationAttributes, AuthorizationTarget, Authorizer, ResourceAttributes, node_name},
    cache::WatchCaches,
};

const LEASES: &str = "kube-node-lease";

/// Marks the pods that a node runs by itself.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub(super) struct NodeRestriction(pub(super) Arc<Authorizer>);

// upstream: plugin/pkg/admission/noderestriction/admission.go Admit
impl AdmissionPlugin for NodeRestriction {
    fn admit(&self, attributes: &mut AdmissionAttributes<'_>, caches: &WatchCaches) -> Result<(), Status> {
        let user = &attributes.ctx.user;
        let Some(node) = node_name(user) else {
            return Ok(());
        };
        if node.is_empty() {
            let why = format!("could not determine node from user {}", go::quote(&user.name));
            return Err(attributes.forbidden(why));
        }
        let asked = NodeRequest { node, attributes };
        let kind = &attributes.resource.kind;
        match (&*kind.group, &*kind.plural) {
            ("", "pods") => pod::admit(&asked, caches),
            ("", "nodes") => node::admit(&asked),
            ("", "persistentvolumeclaims") => claim(&asked),
            ("", "serviceaccounts") => token::admit(&asked, &self.0, caches),
            ("coordination.k8s.io", "leases") => lease(&asked),
            ("storage.k8s.io", "csinodes") if asked.name() != node => {
                asked.refuse("can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => slice(&asked),
            ("certificates.k8s.io", "podcertificaterequests") => certificate::of_pod(&asked, &self.0, caches),
            ("certificates.k8s.io", "certificatesigningrequests") => certificate::of_node(&asked),
            _ => Ok(()),
        }
    }
}

/// What a node asks for.
struct NodeRequest<'a> {
    node: &'a str,
    attributes: &'a AdmissionAttributes<'a>,
}

/// A node may update only capacity and conditions in a claim's status.
// upstream: plugin/pkg/admission/noderestriction/admission.go admitPVCStatus
fn claim(asked: &NodeRequest<'_>) -> Result<(), Status> {
    let Some(old) = asked.attributes.old.filter(|_| asked.part() == "status") else {
        return asked.refuse("may only update PVC status");
    };
    let rest = |claim: &Value| {
        let mut rest = claim.clone();
        let metadata = rest.ensure_object("metadata");
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
        let status = rest.ensure_object("status");
        for field in [
            "capacity",
            "conditions",
            "allocatedResourceStatuses",
            "allocatedResources",
        ] {
            status.remove(field);
        }
        rest
    };
    let before = rest(old);
    let after = rest(asked.object());
    if before == after {
        return Ok(());
    }
    let changed: Vec<_> = ["metadata", "spec", "status"]
        .into_iter()
        .filter(|field| before.at(field) != after.at(field))
        .collect();
    asked.refuse(format!(
        "node {} is not allowed to update fields other than status.quantity and status.conditions: {} changed",
        asked.quoted(),
        changed.join(", ")
    ))
}

// upstream: plugin/pkg/admission/noderestriction/admission.go admitLease
fn lease(asked: &NodeRequest<'_>) -> Result<(), Status> {
    if asked.attributes.namespace != LEASES {
        let why = format!(
            "can only access leases in the {} system namespace",
            go::quote(LEASES)
        );
        return asked.refuse(why);
    }
    if asked.name() != asked.node {
        return asked.refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

// upstream: plugin/pkg/admission/noderestriction/admission.go admitResourceSlice
fn slice(asked: &NodeRequest<'_>) -> Result<(), Status> {
    let word = match asked.attributes.operation {
        Operation::Create => "create",
        Operation::Delete => "delete",
        Operation::Update | Operation::Connect => return Ok(()),
    };
    if asked.object().at("spec").text("nodeName") == asked.node {
        return Ok(());
    }
    asked.refuse(format!(
        "can only {word} ResourceSlice with the same NodeName as the requesting node"
    ))
}

// --- NodeRequest ---

impl NodeRequest<'_> {
    fn object(&self) -> &Value {
        self.attributes.object
    }

    fn name(&self) -> &str {
        self.attributes.name()
    }

    fn part(&self) -> &str {
        self.attributes.subresource
    }

    /// The name of the node, in quotes.
    fn quoted(&self) -> String {
        go::quote(self.node)
    }

    /// The operation in the words of reviews.
    fn operation(&self) -> &'static str {
        match self.attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    fn refuse(&self, why: impl std::fmt::Display) -> Result<(), Status> {
        Err(self.attributes.forbidden(why))
    }

    /// A pod of the namespace of the request.
    fn pod(&self, name: &str, caches: &WatchCaches) -> Result<Value, Status> {
        let namespace = self.attributes.namespace;
        object("", "pods", namespace, name, caches).ok_or_else(|| not_found("", "pod", name))
    }

    /// Whether the node may do something to a resource that stands for a right.
    fn may(&self, authorizer: &Authorizer, verb: &str, resource: &str, name: &str) -> bool {
        let kind = &self.attributes.resource.kind;
        let what = AuthorizationTarget::Resource(ResourceAttributes {
            group: &kind.group,
            version: &kind.version,
            resource,
            namespace: self.attributes.namespace,
            name,
            ..ResourceAttributes::default()
        });
        let action = AuthorizationAttributes {
            user: &self.attributes.ctx.user,
            verb,
            what,
        };
        authorizer.allows(&action)
    }
}

/// The answer about something that is looked up and not there.
fn not_found(group: &str, what: &str, name: &str) -> Status {
    Status::not_found(GroupResource::new(group, what), name)
}
