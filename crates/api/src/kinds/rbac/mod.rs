//! The kinds of the `rbac.authorization.k8s.io` group, one file per kind.

mod binding;
mod role;

use crate::{kinds::Scope, strategy::RestStrategy};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The strategy of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "ClusterRole" => &role::RoleStrategy(Scope::Cluster),
        "ClusterRoleBinding" => &binding::RoleBindingStrategy(Scope::Cluster),
        "Role" => &role::RoleStrategy(Scope::Namespaced),
        "RoleBinding" => &binding::RoleBindingStrategy(Scope::Namespaced),
        _ => return None,
    })
}
