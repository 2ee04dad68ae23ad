//! Objects of a new cluster: default RBAC roles and bindings, FlowSchemas and priority levels, namespaces, priority classes.
//!
//! Promises: every object is in the normal form of its kind and defaulted; name, labels, annotations and, where the
//! kind counts it, generation are set; uid, times and resourceVersion are not, because the server gives them out.
//!
//! The data are tables of text, one per topic, that are read when asked for. A line that begins with a space belongs
//! to the object above it; lists are written `a,b`, and `-` is an empty word (the core group, no value):
//!
//! ```text
//! clusterrole NAME                     role NAMESPACE NAME
//!  into TO                             this role is part of the role TO
//!  from TO                             this role has the rules of all roles that are part of TO
//!  VERBS GROUPS RESOURCES [NAMES]      a rule
//!  VERBS url PATHS                     a rule for paths
//!  bound BINDING [SUBJECT ...]         a binding to user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME
//! level NAME exempt|limited SHARES LENDABLE [QUEUES HAND LENGTH]
//! schema NAME PRECEDENCE LEVEL DISTINGUISHER
//!  for SUBJECT ...
//!  VERBS GROUPS RESOURCES cluster|- NAMESPACES
//!  VERBS url PATHS
//! version GROUP VERSION GROUPPRIORITY VERSIONPRIORITY
//! namespace NAME
//! priorityclass NAME VALUE DESCRIPTION
//! ```

mod cluster;
mod flow;
mod roles;
mod table;
mod versions;

use serde_json::Value;

use crate::strategy::Tree;

pub use self::{
    cluster::{kubernetes_service, namespaces, priority_classes, token_tracking},
    flow::{MANDATORY, flow_schema_found, flow_schemas, priority_levels},
    roles::{cluster_role_bindings, cluster_roles, role_bindings, roles},
    versions::api_services,
};

/// All objects that are the same in every cluster, in an order in which they can be created. Two more depend on how a
/// cluster is set up: [`kubernetes_service`] and [`token_tracking`]; the [`api_services`] depend on what is served.
pub fn objects() -> impl Iterator<Item = Value> {
    namespaces()
        .chain(priority_classes())
        .chain(priority_levels())
        .chain(flow_schemas())
        .chain(cluster_roles())
        .chain(cluster_role_bindings())
        .chain(roles())
        .chain(role_bindings())
}

/// Who is recorded as having set the fields of such an object.
pub fn manager(object: &Value) -> &'static str {
    let group = object.text("apiVersion").split('/').next();
    if group == Some("flowcontrol.apiserver.k8s.io") {
        "api-priority-and-fairness-config-producer-v1"
    } else {
        "kube-apiserver"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object whose first token is unknown would be missing in every new cluster.
    #[test]
    fn every_object_of_the_tables_is_read() {
        let tables = [
            (
                "cluster.table",
                include_str!("cluster.table"),
                namespaces().count() + priority_classes().count(),
            ),
            (
                "flow.table",
                include_str!("flow.table"),
                priority_levels().count() + flow_schemas().count(),
            ),
            (
                "roles.table",
                include_str!("roles.table"),
                cluster_roles().count() + roles().count(),
            ),
            (
                "versions.table",
                include_str!("versions.table"),
                api_services().count(),
            ),
        ];
        for (name, table, read) in tables {
            let objects = table
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with(' '));
            assert_eq!(objects.count(), read, "{name}");
            assert!(read > 0, "{name}");
        }
        assert!(cluster_role_bindings().count() > 0);
        assert!(role_bindings().count() > 0);
    }
}
