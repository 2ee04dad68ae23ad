//! The node authorizer: kubelets may read the objects that pods on their node reference.
//!
//! Promises: a node reads the secrets, configmaps, claims and volumes that pods on it refer to, and no others; what is its own
//! (its node, its lease, its slices) it may change. The rest of what nodes need, all of them may do: it is in `system:node`.

mod graph;
mod references;
#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use k3_api::{
    bootstrap,
    go::quote,
    selector::field::{Operator, Term},
    strategy::{Tree, User},
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::{
    graph::{NodeOwnedKind, ReferenceGraph},
    references::ReferenceKind,
};
use super::{AuthorizationAttributes, AuthorizationTarget, Decision, ResourceAttributes, rbac::PolicyRule};
use crate::cache::{AtomicCachesVersion, WatchCaches};

const NODES: &str = "system:nodes";
const PREFIX: &str = "system:node:";
const SYSTEM: &str = "kube-system";
const LEASES: &str = "kube-node-lease";

/// What every node may do.
static COMMON: LazyLock<Vec<PolicyRule>> = LazyLock::new(|| {
    let mut roles = bootstrap::cluster_roles();
    let role = roles.find(|role| role.at("metadata").text("name") == "system:node");
    PolicyRule::all_of(&role.expect("the cluster roles have system:node"))
});

/// Decides for nodes.
pub(super) struct NodeAuthorizer {
    caches: Arc<WatchCaches>,
    /// A panic during an update leaves it incomplete, and marked so: it is then built again before anything is decided.
    graph: RwLock<ReferenceGraph>,
    /// The version of the caches that the graph was last compared with. The graph is not behind that.
    seen: AtomicCachesVersion,
}

/// Why a node may not do something. There may be no reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct DenialReason(String);

/// The name of the node that a user is.
pub(crate) fn name_of(user: &User) -> Option<&str> {
    let name = user.name.strip_prefix(PREFIX)?;
    user.groups.iter().any(|group| group == NODES).then_some(name)
}

// --- NodeAuthorizer ---

impl NodeAuthorizer {
    pub(super) fn new(caches: Arc<WatchCaches>) -> Self {
        NodeAuthorizer {
            graph: RwLock::new(ReferenceGraph::new(&caches)),
            caches,
            seen: AtomicCachesVersion::default(),
        }
    }

    /// Whether a node may do something; `None` if it is no node that wants it.
    // upstream: plugin/pkg/auth/authorizer/node/node_authorizer.go Authorize
    pub(super) fn decide(&self, action: &AuthorizationAttributes<'_>) -> Option<Decision> {
        let node = name_of(action.user)?;
        if node.is_empty() {
            let user = quote(&action.user.name);
            return Some(Decision::NoOpinion(format!("unknown node for user {user}")));
        }
        Some(match self.authorize_node(node, action) {
            Ok(()) => Decision::Allow(String::new()),
            Err(DenialReason(reason)) => Decision::NoOpinion(reason),
        })
    }

    fn authorize_node(&self, node: &str, action: &AuthorizationAttributes<'_>) -> Result<(), DenialReason> {
        let verb = action.verb;
        let AuthorizationTarget::Resource(object) = &action.what else {
            return common(action);
        };
        let wants = |sort| self.wants(node, sort, object);
        match (object.group, object.resource) {
            ("", "secrets") => read_one(verb, object).and_then(|()| wants(ReferenceKind::Secret)),
            ("", "configmaps") => read_one(verb, object).and_then(|()| wants(ReferenceKind::ConfigMap)),
            ("", "persistentvolumeclaims") if object.subresource == "status" => {
                one_of(verb, &["update", "patch"], "can only get/update/patch this type")?;
                wants(ReferenceKind::Claim)
            }
            ("", "persistentvolumeclaims") => {
                get_one(verb, object).and_then(|()| wants(ReferenceKind::Claim))
            }
            ("", "persistentvolumes") => {
                get_one(verb, object)?;
                self.related(node, object, |graph| {
                    object.namespace.is_empty() && graph.mounts(node, object.name)
                })
            }
            ("resource.k8s.io", "resourceclaims") => {
                get_one(verb, object).and_then(|()| wants(ReferenceKind::ResourceClaim))
            }
            ("storage.k8s.io", "volumeattachments") => {
                get_one(verb, object)?;
                self.owns(node, NodeOwnedKind::Attachment, object)
            }
            ("", "serviceaccounts") => self.service_account(node, verb, object),
            ("coordination.k8s.io", "leases") => lease(node, verb, object),
            ("storage.k8s.io", "csinodes") => csi_node(node, verb, object),
            ("resource.k8s.io", "resourceslices") => self.slice(node, verb, object),
            // Ours alone: the uid of that namespace is the cluster's, by which a node knows its containers from those of a node of
            // another cluster with the same name.
            ("", "namespaces") if verb == "get" && object.name == SYSTEM && object.subresource.is_empty() => {
                Ok(())
            }
            ("", "nodes") => own_node(node, verb, object),
            ("", "pods") => self.pod(node, verb, object),
            ("certificates.k8s.io", "podcertificaterequests") => self.certificate_request(node, verb, object),
            _ => common(action),
        }
    }

    fn service_account(
        &self,
        node: &str,
        verb: &str,
        object: &ResourceAttributes<'_>,
    ) -> Result<(), DenialReason> {
        if verb == "get" && object.subresource.is_empty() {
            read_one(verb, object)?;
        } else if verb != "create" || object.name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        } else if object.subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.wants(node, ReferenceKind::ServiceAccount, object)
    }

    fn slice(&self, node: &str, verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
        if !object.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.owns(node, NodeOwnedKind::Slice, object),
            "watch" | "list" | "deletecollection" if selects(object.fields, "spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            ),
        }
    }

    fn certificate_request(
        &self,
        node: &str,
        verb: &str,
        object: &ResourceAttributes<'_>,
    ) -> Result<(), DenialReason> {
        if !object.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match verb {
            "create" => Ok(()),
            "get" => self.owns(node, NodeOwnedKind::CertificateRequest, object),
            "list" | "watch" if selects(object.fields, "spec.nodeName", node) => Ok(()),
            "list" | "watch" => {
                refuse("can only list/watch podcertificaterequests with nodeName field selector")
            }
            _ => refuse(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    fn pod(&self, node: &str, verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
        match (object.subresource, verb) {
            // What is done to whose pod is for admission to say.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            ("", "list" | "watch") if selects(object.fields, "spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if object.name.is_empty() => {
                refuse("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "get" | "list" | "watch") => self.related(node, object, |graph| {
                graph.runs(node, object.namespace, object.name)
            }),
            _ => refuse(""),
        }
    }

    fn wants(
        &self,
        node: &str,
        sort: ReferenceKind,
        object: &ResourceAttributes<'_>,
    ) -> Result<(), DenialReason> {
        self.related(node, object, |graph| {
            graph.wants(node, sort, object.namespace, object.name)
        })
    }

    fn owns(
        &self,
        node: &str,
        owned: NodeOwnedKind,
        object: &ResourceAttributes<'_>,
    ) -> Result<(), DenialReason> {
        self.related(node, object, |graph| {
            graph.owns(node, owned, object.namespace, object.name)
        })
    }

    fn related(
        &self,
        node: &str,
        object: &ResourceAttributes<'_>,
        is: impl FnOnce(&ReferenceGraph) -> bool,
    ) -> Result<(), DenialReason> {
        if object.name.is_empty() {
            return refuse("No Object name found");
        }
        if is(&self.graph()) {
            return Ok(());
        }
        refuse(format!(
            "no relationship found between node '{node}' and this object"
        ))
    }

    /// The graph, as of now.
    fn graph(&self) -> RwLockReadGuard<'_, ReferenceGraph> {
        // What is answered is in the caches before their version changes.
        let version = self.caches.version();
        if self.seen.load() != version {
            if !self.read().is_current(&self.caches) {
                let mut graph = self.graph.write();
                graph.follow(&self.caches);
            }
            self.seen.store(version);
        }
        let graph = self.read();
        if graph.is_complete() {
            return graph;
        }
        // An update by another request panicked.
        drop(graph);
        let mut graph = self.graph.write();
        graph.follow(&self.caches);
        RwLockWriteGuard::downgrade(graph)
    }

    fn read(&self) -> RwLockReadGuard<'_, ReferenceGraph> {
        self.graph.read()
    }
}

/// What all nodes may do.
fn common(action: &AuthorizationAttributes<'_>) -> Result<(), DenialReason> {
    if COMMON.iter().any(|rule| rule.allows(action)) {
        return Ok(());
    }
    refuse("")
}

fn refuse(why: impl Into<String>) -> Result<(), DenialReason> {
    Err(DenialReason(why.into()))
}

fn one_of(verb: &str, verbs: &[&str], why: &str) -> Result<(), DenialReason> {
    if verbs.contains(&verb) {
        Ok(())
    } else {
        refuse(why)
    }
}

fn get_one(verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
    one_of(verb, &["get"], "can only get individual resources of this type")?;
    one_of(object.subresource, &[""], "cannot get subresource")
}

fn read_one(verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
    one_of(
        verb,
        &["get", "list", "watch"],
        "can only read resources of this type",
    )?;
    one_of(object.subresource, &[""], "cannot read subresource")?;
    if object.namespace.is_empty() {
        return refuse("can only read namespaced object of this type");
    }
    Ok(())
}

fn lease(node: &str, verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
    let verbs = ["get", "create", "update", "patch", "delete"];
    one_of(
        verb,
        &verbs,
        "can only get, create, update, patch, or delete a node lease",
    )?;
    if object.namespace != LEASES {
        return refuse(format!(
            "can only access leases in the {} system namespace",
            quote(LEASES)
        ));
    }
    // The name of a new object is checked by the `NodeRestriction` plugin.
    if verb != "create" && object.name != node {
        return refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
    match object.subresource {
        "" => {
            let verbs = ["get", "create", "update", "patch", "delete"];
            one_of(
                verb,
                &verbs,
                "can only get, create, update, patch, or delete a CSINode",
            )?;
        }
        "status" => return refuse("CSINode status access requires CSIVolumeHealth feature"),
        _ => return refuse("cannot authorize CSINode subresources"),
    }
    if verb != "create" && object.name != node {
        return refuse("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

fn own_node(node: &str, verb: &str, object: &ResourceAttributes<'_>) -> Result<(), DenialReason> {
    match (object.subresource, verb) {
        // Which node it is, is checked by the `NodeRestriction` plugin.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match object.name {
            name if name == node => Ok(()),
            "" => refuse(format!(
                "node '{node}' cannot read all nodes, only its own Node object"
            )),
            name => refuse(format!(
                "node '{node}' cannot read '{name}', only its own Node object"
            )),
        },
        _ => refuse(""),
    }
}

/// Whether a field must have a value.
fn selects(fields: &[Term], field: &str, value: &str) -> bool {
    fields
        .iter()
        .any(|term| term.operator == Operator::Equals && term.field == field && term.value == value)
}
