//! RBAC privilege escalation checks of roles and bindings (verbs `escalate` and `bind`).
//!
//! Promises: the author of a role holds all its rules or has `escalate`; the author of a binding holds all rules of its role or
//! has `bind`. Aggregated roles require all permissions.

use std::collections::{BTreeSet, HashMap};

use k3_api::{
    go::quote,
    status::{GroupResource, Status},
    strategy::{Tree, TreeMut, User},
};
use serde_json::Value;

use super::{
    AuthorizationAttributes, AuthorizationTarget, Authorizer, ResourceAttributes,
    coverage::{MAX_MISSING, uncovered},
    is_master,
    rbac::{PolicyRule, RoleResolutionError, StringList, aggregate, quoted},
};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A role or binding that is created or updated.
pub(crate) struct RbacGrant<'a> {
    /// Who does it.
    pub user: &'a User,
    /// The API group of the resource of the request.
    pub group: &'a str,
    /// The resource of the request.
    pub resource: &'a str,
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The name in the request; empty if an object is made.
    pub name: &'a str,
    /// The role or binding as it is to be.
    pub object: &'a Value,
    /// As it is; `None` if there is none yet.
    pub old: Option<&'a Value>,
}

// --- Authorizer ---

impl Authorizer {
    /// Rejects a role or binding that grants permissions that its author does not have.
    // upstream: pkg/registry/rbac/escalation_check.go EscalationAllowed, RoleEscalationAuthorized, BindingAuthorized
    pub(crate) fn check_grant(&self, grant: &RbacGrant<'_>) -> Result<(), Status> {
        if grant.group != GROUP || is_master(grant.user) || grant.changes_nothing() {
            return Ok(());
        }
        match grant.resource {
            "roles" | "clusterroles" => self.check_role(grant),
            "rolebindings" | "clusterrolebindings" => self.check_binding(grant),
            _ => Ok(()),
        }
    }

    fn check_role(&self, grant: &RbacGrant<'_>) -> Result<(), Status> {
        let role = ResourceAttributes {
            group: GROUP,
            version: "*",
            resource: grant.resource,
            namespace: grant.namespace,
            name: grant.name,
            ..ResourceAttributes::default()
        };
        if self.allows(&grant.action("escalate", role)) {
            return Ok(());
        }
        self.check_rules(grant, &PolicyRule::all_of(grant.object))?;
        let collects = |role: &Value| {
            let selectors = role.at("aggregationRule").items("clusterRoleSelectors");
            grant.resource == "clusterroles" && !selectors.is_empty()
        };
        if (collects(grant.object) || grant.old.is_some_and(collects))
            && self.check_rules(grant, &PolicyRule::everything()).is_err()
        {
            return Err(grant.refused("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self, grant: &RbacGrant<'_>) -> Result<(), Status> {
        let role = grant.object.at("roleRef");
        let kind = role.text("kind");
        let name = role.text("name");
        let resource = match kind {
            "ClusterRole" => "clusterroles",
            _ => "roles",
        };
        let bound = ResourceAttributes {
            group: role.text("apiGroup"),
            version: "*",
            resource,
            namespace: grant.namespace,
            name,
            ..ResourceAttributes::default()
        };
        let is_role = ["Role", "ClusterRole"].contains(&kind);
        if is_role && self.allows(&grant.action("bind", bound)) {
            return Ok(());
        }
        let rules = self.rbac.role(kind, name, grant.namespace);
        let rules = rules.map_err(|error| match &error {
            RoleResolutionError::Missing(_, name) => Status::not_found(grant.grouped(), name),
            RoleResolutionError::Kind(_) => Status::unknown(error.to_string()),
        })?;
        self.check_rules(grant, &rules)
    }

    // upstream: pkg/registry/rbac/validation/rule.go ConfirmNoEscalation
    fn check_rules(&self, grant: &RbacGrant<'_>, rules: &[PolicyRule]) -> Result<(), Status> {
        let (own, unresolved) = self.rbac.rules(grant.user, grant.namespace);
        let missing = match uncovered(&own, rules) {
            Some(missing) if missing.is_empty() => return Ok(()),
            Some(missing) => missing,
            None => return Err(grant.refused("the rules have too many combinations to be compared")),
        };
        let is_cut = missing.len() == MAX_MISSING;
        let missing: BTreeSet<_> = merged(missing).iter().map(PolicyRule::short).collect();
        let mut missing: Vec<_> = missing.into_iter().collect();
        if is_cut {
            missing.push("and more".to_owned());
        }
        let mut why = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quote(&grant.user.name),
            quoted(&grant.user.groups),
            missing.join("\n")
        );
        let unresolved = unresolved.iter().map(|error| grant.describe(error)).collect();
        if let Some(errors) = aggregate(unresolved) {
            why = format!("{why}; resolution errors: [{errors}]");
        }
        Err(grant.refused(&why))
    }
}

// --- RbacGrant ---

impl<'a> RbacGrant<'a> {
    fn action(&self, verb: &'a str, object: ResourceAttributes<'a>) -> AuthorizationAttributes<'a> {
        AuthorizationAttributes {
            user: self.user,
            verb,
            what: AuthorizationTarget::Resource(object),
        }
    }

    fn grouped(&self) -> GroupResource<'a> {
        GroupResource::new(self.group, self.resource)
    }

    fn refused(&self, why: &str) -> Status {
        Status::forbidden(self.grouped(), self.object.at("metadata").text("name"), why)
    }

    /// An error of looking for roles, which calls them by what the request is about.
    fn describe(&self, error: &RoleResolutionError) -> String {
        match error {
            RoleResolutionError::Missing(_, name) => Status::not_found(self.grouped(), name).message,
            RoleResolutionError::Kind(_) => error.to_string(),
        }
    }

    /// Whether only metadata changes that the garbage collector writes.
    // upstream: pkg/registry/rbac/helpers.go IsOnlyMutatingGCFields
    fn changes_nothing(&self) -> bool {
        let Some(old) = self.old else {
            return false;
        };
        let mut new = self.object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            new.ensure_object("metadata").copy_from(field, old.at("metadata"));
        }
        new == *old
    }
}

/// Single rules with those for the same resource put together.
// upstream: pkg/registry/rbac/validation/policy_compact.go CompactRules
fn merged(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut merged: Vec<(PolicyRule, Vec<Box<str>>)> = Vec::new();
    let mut positions: HashMap<(StringList, StringList, StringList), usize> = HashMap::new();
    for mut rule in rules {
        let verbs = std::mem::take(&mut rule.verbs).into_vec();
        if rule.paths.is_empty() {
            let key = (rule.groups.clone(), rule.resources.clone(), rule.names.clone());
            let at = *positions.entry(key).or_insert(merged.len());
            if let Some((_, known)) = merged.get_mut(at) {
                known.extend(verbs);
                continue;
            }
        }
        merged.push((rule, verbs));
    }
    let whole = |(rule, verbs): (PolicyRule, Vec<Box<str>>)| PolicyRule {
        verbs: verbs.into(),
        ..rule
    };
    merged.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::testing::{TestCluster, user},
        *,
    };

    const VERSION: &str = "rbac.authorization.k8s.io/v1";

    /// A cluster in which alice has these rules everywhere.
    async fn world(rules: Value) -> TestCluster {
        let world = TestCluster::new().await;
        world.put(&role("own", &rules)).await;
        world.put(&binding("own", "own", "alice")).await;
        world
    }

    fn role(name: &str, rules: &Value) -> Value {
        json!({"apiVersion": VERSION, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
    }

    fn binding(name: &str, role: &str, user: &str) -> Value {
        json!({"apiVersion": VERSION, "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": user}]})
    }

    /// What is said when alice makes an object, or changes it.
    fn give(world: &TestCluster, object: &Value, old: Option<&Value>) -> Result<(), String> {
        give_as(world, &user("alice", &["devs"]), object, old)
    }

    fn give_as(world: &TestCluster, user: &User, object: &Value, old: Option<&Value>) -> Result<(), String> {
        let resource = format!("{}s", object.text("kind").to_lowercase());
        let grant = RbacGrant {
            user,
            group: GROUP,
            resource: &resource,
            namespace: "",
            name: old.map_or("", |old| old.at("metadata").text("name")),
            object,
            old,
        };
        world
            .authorizer
            .check_grant(&grant)
            .map_err(|status| status.message)
    }

    #[tokio::test]
    async fn role_author_must_hold_all_rules() {
        let world = world(json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
            {"verbs": ["get"], "nonResourceURLs": ["/a/*"]},
        ]))
        .await;
        let made = |rules: Value| give(&world, &role("x", &rules), None);
        let held = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods", "nodes/scale"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/a/b", "/a/*"]}]);
        assert_eq!(made(held), Ok(()));
        let more = json!([
            {"verbs": ["get", "watch", "list", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"]},
            {"verbs": ["get"], "nonResourceURLs": ["/b"]},
        ]);
        assert_eq!(
            made(more).unwrap_err(),
            "clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: user \"alice\" (groups=[\"devs\"]) is attempting to grant \
             RBAC permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\" \"delete\"]}\n\
             {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"watch\" \"list\" \"delete\"]}\n\
             {NonResourceURLs:[\"/b\"], Verbs:[\"get\"]}"
        );
        assert!(made(json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}])).is_err());
        let masters = user("root", &["system:masters"]);
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        assert_eq!(give_as(&world, &masters, &role("x", &all), None), Ok(()));
    }

    #[tokio::test]
    async fn reports_resolution_errors_with_missing_rules() {
        let world = world(json!([])).await;
        world.put(&binding("b", "missing", "alice")).await;
        let wanted = role(
            "x",
            &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]),
        );
        let message = give(&world, &wanted, None).unwrap_err();
        let end = "{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"get\"]}; resolution errors: \
                   [clusterroles.rbac.authorization.k8s.io \"missing\" not found]";
        assert!(message.ends_with(end), "{message}");
    }

    #[tokio::test]
    async fn escalate_permission_allows_any_rule() {
        let world = world(json!([
            {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["clusterroles"], "resourceNames": ["x"]},
        ]))
        .await;
        let old = role("x", &json!([]));
        let new = role(
            "x",
            &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        );
        assert_eq!(give(&world, &new, Some(&old)), Ok(()));
        // A new object has no name in its request.
        assert!(give(&world, &new, None).is_err());
    }

    #[tokio::test]
    async fn garbage_collector_updates_are_exempt() {
        let world = world(json!([])).await;
        let old = role(
            "x",
            &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
        );
        let mut new = old.clone();
        new["metadata"]["ownerReferences"] = json!([{"uid": "1"}]);
        new["metadata"]["finalizers"] = json!(["a/b"]);
        assert_eq!(give(&world, &new, Some(&old)), Ok(()));
        new["metadata"]["labels"] = json!({"a": "b"});
        assert!(give(&world, &new, Some(&old)).is_err());
    }

    #[tokio::test]
    async fn aggregated_role_requires_all_permissions() {
        let world = world(json!([])).await;
        let plain = role("x", &json!([]));
        let mut collecting = plain.clone();
        collecting["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
        let refused = "clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: must have cluster-admin privileges to use the \
                       aggregationRule";
        assert_eq!(give(&world, &collecting, None).unwrap_err(), refused);
        assert_eq!(give(&world, &plain, Some(&collecting)).unwrap_err(), refused);
        world
            .put(&role(
                "own",
                &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]}]),
            ))
            .await;
        assert_eq!(give(&world, &collecting, None), Ok(()));
    }

    #[tokio::test]
    async fn binding_author_must_hold_rules_or_bind_permission() {
        let world = world(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}])).await;
        let rules = |verb: &str| json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]);
        world.put(&role("small", &rules("get"))).await;
        world.put(&role("big", &rules("delete"))).await;
        assert_eq!(give(&world, &binding("b", "small", "eve"), None), Ok(()));
        let refused = give(&world, &binding("b", "big", "eve"), None).unwrap_err();
        assert!(
            refused.ends_with("{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"),
            "{refused}"
        );
        assert_eq!(
            give(&world, &binding("b", "missing", "eve"), None).unwrap_err(),
            "clusterrolebindings.rbac.authorization.k8s.io \"missing\" not found"
        );
        world
            .put(&role(
                "own",
                &json!([{"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["clusterroles"],
            "resourceNames": ["big"]}]),
            ))
            .await;
        assert_eq!(give(&world, &binding("b", "big", "eve"), None), Ok(()));
        assert!(give(&world, &binding("b", "small", "eve"), None).is_err());
    }

    #[tokio::test]
    async fn rejects_huge_role_quickly() {
        let world = world(json!([{"verbs": ["get"], "apiGroups": ["a"], "resources": ["b"]}])).await;
        let many: Vec<_> = (0..3000).map(|number| format!("w{number}")).collect();
        let rules = json!([{"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}]);
        let message = give(&world, &role("x", &rules), None).unwrap_err();
        assert!(
            message.ends_with("the rules have too many combinations to be compared"),
            "{message}"
        );
    }
}
