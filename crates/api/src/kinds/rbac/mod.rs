//! The kinds of the `rbac.authorization.k8s.io` group, a file each.

mod binding;
mod role;

use crate::{kinds::Scope, strategy::RestStrategy};

/// The group.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn RestStrategy> {
    Some(match kind {
        "ClusterRole" => &role::Role(Scope::Cluster),
        "ClusterRoleBinding" => &binding::Binding(Scope::Cluster),
        "Role" => &role::Role(Scope::Namespaced),
        "RoleBinding" => &binding::Binding(Scope::Namespaced),
        _ => return None,
    })
}
