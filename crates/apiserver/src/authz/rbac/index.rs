//! Index of RBAC: from a user to bindings, and from bindings to rules.
//!
//! Promise: a look-up touches only what concerns the user, however many bindings there are.

use std::{collections::HashMap, sync::Arc};

use k3_api::{
    go::quote,
    strategy::{Tree, User},
};
use serde_json::Value;

use super::{super::cache_follower::ObjectChange, PolicyRule, cluster_roles::ClusterRoles};
use crate::cache::CachedObject;

/// Roles, and bindings indexed by subject.
#[derive(Default)]
pub(super) struct RbacIndex {
    users: HashMap<Box<str>, SubjectBindings>,
    groups: HashMap<Box<str>, SubjectBindings>,
    cluster_roles: ClusterRoles,
    /// By namespace and name.
    roles: HashMap<Box<str>, RulesByRole>,
}

/// The rules of roles, by name.
type RulesByRole = HashMap<Box<str>, Arc<[PolicyRule]>>;

/// The bindings for one user or group, in the order of their names.
#[derive(Default)]
struct SubjectBindings {
    everywhere: Vec<Arc<IndexedBinding>>,
    /// By namespace.
    within: HashMap<Box<str>, Vec<Arc<IndexedBinding>>>,
}

/// A binding of a role.
#[derive(Debug)]
pub(super) struct IndexedBinding {
    /// Empty if it is for the whole cluster.
    namespace: Box<str>,
    name: Box<str>,
    /// `Role` or `ClusterRole`.
    role_kind: Box<str>,
    role: Box<str>,
    subjects: Box<[BindingSubject]>,
}

#[derive(Debug)]
struct BindingSubject {
    kind: Box<str>,
    /// The name as users and groups have it.
    who: Box<str>,
    /// The name as reasons show it.
    shown: Box<str>,
}

// --- RbacIndex ---

impl RbacIndex {
    /// Updates a role after a change.
    pub(super) fn change_role(&mut self, (before, after): &ObjectChange) {
        let role = after.as_ref().map(|object| object.tree());
        let Some(object) = after.as_ref().or(before.as_ref()) else {
            return;
        };
        let namespace = object.namespace();
        let name = object.name();
        if namespace.is_empty() {
            self.cluster_roles.change(name, role.as_ref());
            return;
        }
        let roles = self.roles.entry(namespace.into()).or_default();
        match role {
            Some(role) => roles.insert(name.into(), PolicyRule::all_of(&role).into()),
            None => roles.remove(name),
        };
        if self.roles.get(namespace).is_some_and(HashMap::is_empty) {
            self.roles.remove(namespace);
        }
    }

    /// Lets cluster roles gather the rules of others. To be called when roles have changed.
    pub(super) fn settle_roles(&mut self) {
        self.cluster_roles.settle();
    }

    /// Updates a binding after a change.
    pub(super) fn change_binding(&mut self, (before, after): &ObjectChange) {
        if let Some(object) = before {
            self.remove(&IndexedBinding::read(object));
        }
        if let Some(object) = after {
            self.insert(&Arc::new(IndexedBinding::read(object)));
        }
    }

    fn insert(&mut self, binding: &Arc<IndexedBinding>) {
        for subject in &binding.subjects {
            let Some(by) = self.by_kind(&subject.kind) else {
                continue;
            };
            let held = by.entry(subject.who.clone()).or_default();
            let list = if binding.namespace.is_empty() {
                &mut held.everywhere
            } else {
                held.within.entry(binding.namespace.clone()).or_default()
            };
            let at = list.partition_point(|other| other.name < binding.name);
            // A subject may be named twice.
            if list.get(at).is_none_or(|other| other.name != binding.name) {
                list.insert(at, Arc::clone(binding));
            }
        }
    }

    fn remove(&mut self, binding: &IndexedBinding) {
        for subject in &binding.subjects {
            let Some(by) = self.by_kind(&subject.kind) else {
                continue;
            };
            let Some(held) = by.get_mut(&subject.who) else {
                continue;
            };
            let is_other = |other: &Arc<IndexedBinding>| other.name != binding.name;
            if binding.namespace.is_empty() {
                held.everywhere.retain(is_other);
            } else if let Some(list) = held.within.get_mut(&binding.namespace) {
                list.retain(is_other);
                if list.is_empty() {
                    held.within.remove(&binding.namespace);
                }
            }
            if held.everywhere.is_empty() && held.within.is_empty() {
                by.remove(&subject.who);
            }
        }
    }

    fn by_kind(&mut self, kind: &str) -> Option<&mut HashMap<Box<str>, SubjectBindings>> {
        match kind {
            "User" | "ServiceAccount" => Some(&mut self.users),
            "Group" => Some(&mut self.groups),
            _ => None,
        }
    }

    /// The bindings of a user: cluster-wide ones, then those of a namespace, if given. A binding that matches several times is
    /// repeated.
    pub(super) fn bindings<'i>(
        &'i self,
        user: &'i User,
        namespace: &'i str,
    ) -> impl Iterator<Item = &'i Arc<IndexedBinding>> {
        let held = move || {
            let groups = user
                .groups
                .iter()
                .filter_map(|group| self.groups.get(group.as_str()));
            self.users.get(user.name.as_str()).into_iter().chain(groups)
        };
        let within = held().filter_map(move |held| held.within.get(namespace));
        held().flat_map(|held| &held.everywhere).chain(within.flatten())
    }

    /// The same, each once, in the order of their names.
    pub(super) fn bindings_in_order<'i>(
        &'i self,
        user: &'i User,
        namespace: &'i str,
    ) -> Vec<&'i Arc<IndexedBinding>> {
        let mut bindings: Vec<_> = self.bindings(user, namespace).collect();
        bindings.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        bindings.dedup_by(|a, b| Arc::ptr_eq(a, b));
        bindings
    }

    /// The rules of the role a binding is of, or why there are none.
    // upstream: pkg/registry/rbac/validation/rule.go GetRoleReferenceRules
    pub(super) fn rules(&self, binding: &IndexedBinding) -> Result<&Arc<[PolicyRule]>, RoleResolutionError> {
        self.role(&binding.role_kind, &binding.role, &binding.namespace)
    }

    /// The rules of a role, as a binding in a namespace means it.
    pub(super) fn role(
        &self,
        kind: &str,
        name: &str,
        namespace: &str,
    ) -> Result<&Arc<[PolicyRule]>, RoleResolutionError> {
        let (role, word) = match kind {
            "ClusterRole" => (self.cluster_roles.get(name), "clusterrole"),
            "Role" => (
                self.roles.get(namespace).and_then(|roles| roles.get(name)),
                "role",
            ),
            other => return Err(RoleResolutionError::Kind(other.to_owned())),
        };
        role.ok_or_else(|| RoleResolutionError::Missing(word, name.to_owned()))
    }
}

/// Why a binding has no rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RoleResolutionError {
    /// There is no such role.
    #[error("{}.rbac.authorization.k8s.io {} not found", .0, quote(.1))]
    Missing(&'static str, String),
    /// It is of something that is no role.
    #[error("unsupported role reference kind: {}", quote(.0))]
    Kind(String),
}

// --- IndexedBinding ---

impl IndexedBinding {
    fn read(object: &CachedObject) -> Self {
        let tree = object.tree();
        let role = tree.at("roleRef");
        let namespace = object.namespace();
        let subjects = tree.items("subjects").iter();
        IndexedBinding {
            namespace: namespace.into(),
            name: object.name().into(),
            role_kind: role.text("kind").into(),
            role: role.text("name").into(),
            subjects: subjects
                .filter_map(|subject| BindingSubject::read(subject, namespace))
                .collect(),
        }
    }

    /// Describes the binding in the reason for a user.
    pub(super) fn describe(&self, user: &User) -> String {
        let subject = self.subjects.iter().find(|subject| subject.is(user));
        let (kind, shown) = subject.map_or(("", ""), |subject| (&subject.kind, &subject.shown));
        let (word, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.to_string())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        format!(
            "{word} {} of {} {} to {kind} {}",
            quote(&name),
            self.role_kind,
            quote(&self.role),
            quote(shown)
        )
    }
}

// --- BindingSubject ---

impl BindingSubject {
    /// Parses a subject of a binding in a namespace; `None` if it can match no user.
    fn read(subject: &Value, namespace: &str) -> Option<Self> {
        let kind = subject.text("kind");
        let name = subject.text("name");
        let (who, shown) = if kind == "ServiceAccount" {
            let namespace = match subject.text("namespace") {
                "" if namespace.is_empty() => return None,
                "" => namespace,
                own => own,
            };
            let who = format!("system:serviceaccount:{namespace}:{name}");
            (who.into(), format!("{name}/{namespace}").into())
        } else {
            (name.into(), name.into())
        };
        Some(BindingSubject {
            kind: kind.into(),
            who,
            shown,
        })
    }

    fn is(&self, user: &User) -> bool {
        match &*self.kind {
            "Group" => user.groups.iter().any(|group| **group == *self.who),
            _ => *user.name == *self.who,
        }
    }
}
