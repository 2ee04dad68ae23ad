//! RoleBinding and ClusterRoleBinding: the subjects that have a role.

use serde_json::{Value, json};

use super::GROUP;
use crate::{
    field::{BadValue, Error, Path},
    go,
    kinds::{Scope, field_checks},
    name::{self, NameFormat},
    strategy::{Column, ErrorList, RestStrategy, Row, StrategyContext, Tree, TreeMut, named_row},
    time::Time,
};

pub(super) struct RoleBindingStrategy(pub(super) Scope);

const ROLE_KINDS: [&str; 2] = ["Role", "ClusterRole"];
const SUBJECT_KINDS: [&str; 3] = ["ServiceAccount", "User", "Group"];

const COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Role",
        "roleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the \
         RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    Column::age(),
    Column::text("Users", "Users in the roleBinding").wide(),
    Column::text("Groups", "Groups in the roleBinding").wide(),
    Column::text("ServiceAccounts", "ServiceAccounts in the roleBinding").wide(),
];

const CLUSTER_COLUMNS: &[Column] = &[
    Column::name(),
    Column::text(
        "Role",
        "roleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the \
         Authorizer must return an error.",
    ),
    Column::age(),
    Column::text("Users", "Users in the clusterRoleBinding").wide(),
    Column::text("Groups", "Groups in the clusterRoleBinding").wide(),
    Column::text("ServiceAccounts", "ServiceAccounts in the clusterRoleBinding").wide(),
];

// upstream: pkg/registry/rbac/rolebinding/strategy.go strategy
impl RestStrategy for RoleBindingStrategy {
    fn name_format(&self) -> NameFormat {
        NameFormat::PathSegment
    }

    // upstream: pkg/apis/rbac/v1/defaults.go SetDefaults_RoleBinding
    fn set_defaults(&self, object: &mut Value) {
        for subject in object.items_mut("subjects") {
            if subject.text("apiGroup").is_empty() && matches!(subject.text("kind"), "User" | "Group") {
                subject.set("apiGroup", GROUP);
            }
        }
        let role = object.ensure_object("roleRef");
        if role.text("apiGroup").is_empty() {
            role.set("apiGroup", GROUP);
        }
    }

    // upstream: pkg/apis/rbac/validation/validation.go ValidateRoleBinding
    fn validate(&self, object: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_role_binding(object, errors);
        // Declarative validation runs after the hand-written one, so its errors are last.
        validate_subject_names(object, errors);
        field_checks::require_fields(object.at("roleRef"), &["name"], &Path::new("roleRef"), errors);
    }

    // upstream: pkg/apis/rbac/validation/validation.go ValidateRoleBindingUpdate
    fn validate_update(&self, new: &Value, old: &Value, _: &StrategyContext<'_>, errors: &mut ErrorList) {
        self.validate_role_binding(new, errors);
        let at = Path::new("roleRef");
        let role = new.at("roleRef");
        field_checks::require_fields(role, &["name"], &at, errors);
        if role != old.at("roleRef") {
            errors.push(Error::invalid(&at, role_ref_value(role), field_checks::IMMUTABLE));
        }
        validate_subject_names(new, errors);
    }

    // upstream: pkg/registry/rbac/rolebinding/strategy.go AllowCreateOnUpdate
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        match self.0 {
            Scope::Cluster => CLUSTER_COLUMNS,
            Scope::Namespaced => COLUMNS,
        }
    }

    // upstream: pkg/printers/internalversion/printers.go printRoleBinding
    fn row(&self, object: &Value, now: Time) -> Row {
        let role = object.at("roleRef");
        let role = format!("{}/{}", role.text("kind"), role.text("name"));
        let mut row = named_row(object, now, [json!(role)]);
        for kind in ["User", "Group", "ServiceAccount"] {
            let subjects = object.items("subjects").iter();
            let names: Vec<_> = subjects
                .filter(|subject| subject.text("kind") == kind)
                .map(|subject| match kind {
                    "ServiceAccount" => format!("{}/{}", subject.text("namespace"), subject.text("name")),
                    _ => subject.text("name").to_owned(),
                })
                .collect();
            row.cells.push(json!(names.join(", ")));
        }
        row
    }
}

// --- RoleBindingStrategy ---

impl RoleBindingStrategy {
    // upstream: pkg/apis/rbac/validation/validation.go ValidateRoleBinding, ValidateClusterRoleBinding
    fn validate_role_binding(&self, object: &Value, errors: &mut ErrorList) {
        let at = Path::new("roleRef");
        let role = object.at("roleRef");
        let group = role.text("apiGroup");
        if group != GROUP {
            errors.push(Error::not_supported(&at.child("apiGroup"), group, [GROUP]));
        }
        let kinds = match self.0 {
            Scope::Cluster => &ROLE_KINDS[1..],
            Scope::Namespaced => &ROLE_KINDS[..],
        };
        let kind = role.text("kind");
        if !kinds.contains(&kind) {
            errors.push(Error::not_supported(&at.child("kind"), kind, kinds));
        }
        field_checks::validate_path_segment_name(role, "name", &at, errors);
        let list = Path::new("subjects");
        for (index, subject) in object.items("subjects").iter().enumerate() {
            validate_subject(subject, self.0, &list.index(index), errors);
        }
    }
}

// upstream: pkg/apis/rbac/validation/validation.go ValidateRoleBindingSubject
fn validate_subject(subject: &Value, scope: Scope, at: &Path<'_>, errors: &mut ErrorList) {
    let name = subject.text("name");
    let group = subject.text("apiGroup");
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                field_checks::push_invalid(
                    name,
                    name::validate_dns1123_subdomain(name),
                    &at.child("name"),
                    errors,
                );
            }
            if !group.is_empty() {
                errors.push(Error::not_supported(&at.child("apiGroup"), group, [""]));
            }
            if scope == Scope::Cluster {
                field_checks::require_fields(subject, &["namespace"], at, errors);
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(Error::not_supported(&at.child("apiGroup"), group, [GROUP]));
            }
        }
        other => errors.push(Error::not_supported(&at.child("kind"), other, SUBJECT_KINDS)),
    }
}

fn validate_subject_names(object: &Value, errors: &mut ErrorList) {
    let list = Path::new("subjects");
    for (index, subject) in object.items("subjects").iter().enumerate() {
        field_checks::require_fields(subject, &["name"], &list.index(index), errors);
    }
}

/// A RoleRef as the value of an error: the internal type has no JSON tags.
fn role_ref_value(role: &Value) -> BadValue {
    let field = |name: &str| go::json_string(role.text(name));
    BadValue::Printed(format!(
        "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
        field("apiGroup"),
        field("kind"),
        field("name")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(subjects: &Value) -> Value {
        let mut object = json!({"roleRef": {"kind": "ClusterRole", "name": "x"}, "subjects": subjects});
        RoleBindingStrategy(Scope::Cluster).set_defaults(&mut object);
        object
    }

    #[test]
    fn defaults_the_api_group_of_users_and_groups() {
        let object = binding(&json!([{"kind": "User"}, {"kind": "ServiceAccount"}]));
        assert_eq!(object["roleRef"]["apiGroup"], GROUP);
        assert_eq!(
            object["subjects"],
            json!([{"kind": "User", "apiGroup": GROUP}, {"kind": "ServiceAccount"}])
        );
    }

    #[test]
    fn cluster_role_binding_requires_a_namespace_of_service_accounts() {
        let object = binding(&json!([{"kind": "ServiceAccount", "name": "a"}]));
        let count = |scope: Scope| {
            let mut errors = ErrorList::new();
            RoleBindingStrategy(scope).validate_role_binding(&object, &mut errors);
            errors.len()
        };
        assert_eq!((count(Scope::Cluster), count(Scope::Namespaced)), (1, 0));
    }

    #[test]
    fn row_groups_subjects_by_kind() {
        let object = binding(&json!([
            {"kind": "User", "name": "u"},
            {"kind": "Group", "name": "g"},
            {"kind": "User", "name": "v"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
        ]));
        let cells = RoleBindingStrategy(Scope::Cluster)
            .row(&object, Time::from_unix(0, 0))
            .cells;
        assert_eq!(cells[1], "ClusterRole/x");
        assert_eq!(cells[3..], [json!("u, v"), json!("g"), json!("n/s")]);
    }
}
