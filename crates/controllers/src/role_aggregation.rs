//! The ClusterRole aggregation controller: copies the rules of all ClusterRoles that match the selectors of aggregationRule.

use std::collections::HashSet;

use k3_workloads::{ObjectMeta, projected_object};
use kubecontroller::{
    Key,
    controller::{Error, Outcome, Reconciler, Request},
    informer::Informer,
    object::Object,
    selector::Selector,
    store::Store,
    writer::{ApiWriter, ObjectRef, WrittenObject, has_status_code},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    context::{ControllerContext, Task},
    resource::CLUSTER_ROLES,
};

/// Field manager of the rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClusterRole {
    metadata: ObjectMeta,
    /// Kept as JSON: rules are only copied and compared.
    rules: Option<Vec<Value>>,
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AggregationRule {
    cluster_role_selectors: Vec<Selector>,
}

projected_object!(ClusterRole);

// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go ClusterRoleAggregationController, syncClusterRole
struct ClusterRoleAggregationController {
    roles: Informer<ClusterRole>,
    store: Store<ClusterRole>,
    writer: ApiWriter,
}

pub(crate) fn make(context: &ControllerContext) -> Vec<Task> {
    let roles = context.informer::<ClusterRole>(&CLUSTER_ROLES);
    let aggregated = roles.store().index(|role| match role.aggregation_rule {
        Some(_) => vec![String::new()],
        None => Vec::new(),
    });
    let store = roles.store().clone();
    let writer = context.writer.clone();
    let concerned = aggregated.clone();
    let runner = context
        .controller("clusterrole-aggregation-controller")
        // Any changed role may change the aggregated ones, of which there are few.
        .watches(&roles, move |_| {
            concerned
                .get("")
                .iter()
                .map(|role| role.key())
                .collect::<Vec<Key>>()
        })
        .reconciler(ClusterRoleAggregationController { roles, store, writer });
    vec![Box::new(runner)]
}

impl Reconciler for ClusterRoleAggregationController {
    async fn reconcile(&self, request: Request) -> Result<Outcome, Error> {
        let ClusterRoleAggregationController { roles, store, writer } = self;
        let Some(role) = store.get(&request.key) else {
            return Ok(Outcome::Done);
        };
        let Some(rule) = &role.aggregation_rule else {
            return Ok(Outcome::Done);
        };
        let mut all = store.all();
        all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let rules = aggregated_rules(rule, &role.metadata.name, &all.iter().map(|role| &**role));
        if role.rules.as_deref().unwrap_or_default() == rules {
            return Ok(Outcome::Done);
        }
        let object_ref = ObjectRef::new(&CLUSTER_ROLES, "", request.key.name());
        let applied = apply_configuration(&role, &rules);
        match writer
            .server_side_apply::<WrittenObject>(object_ref, MANAGER, &applied)
            .await
        {
            Ok(written) => request.record_write(roles, &written.metadata.resource_version),
            Err(error) if has_status_code(&error, 404) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Outcome::Done)
    }
}

/// The apply configuration. Without selected roles it has no rules: those of other clients are kept. It has the UID, so that a
/// deleted role is not created again.
// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go applyClusterRoles
fn apply_configuration(role: &ClusterRole, rules: &[Value]) -> Value {
    let ObjectMeta { name, uid, .. } = &role.metadata;
    let mut applied = json!({
        "apiVersion": CLUSTER_ROLES.api_version(), "kind": CLUSTER_ROLES.kind,
        "metadata": {"name": name, "uid": uid},
    });
    if !rules.is_empty() {
        applied["rules"] = rules.into();
    }
    applied
}

/// The rules of the selected roles, each once, in the order of selectors and role names.
// upstream: pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go syncClusterRole, ruleExists
fn aggregated_rules<'r>(
    rule: &AggregationRule,
    own: &str,
    roles: &(impl Iterator<Item = &'r ClusterRole> + Clone),
) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    // Compared as text through a set: there may be very many.
    let mut known = HashSet::new();
    for selector in &rule.cluster_role_selectors {
        let meant = roles
            .clone()
            .filter(|role| &*role.metadata.name != own && selector.matches(&role.metadata.labels));
        for found in meant.flat_map(|role| role.rules.iter().flatten()) {
            if known.insert(found.to_string()) {
                rules.push(found.clone());
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_each_rule_once() {
        let role = |name: &str, label: &str, verbs: &[&str]| -> ClusterRole {
            let rules: Vec<_> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
            serde_json::from_value(
                json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules}),
            )
            .unwrap()
        };
        let roles = [
            role("a", "view", &["get", "list"]),
            role("b", "edit", &["create"]),
            role("c", "view", &["list", "watch"]),
            role("own", "view", &["delete"]),
        ];
        let rule: AggregationRule =
            serde_json::from_value(json!({"clusterRoleSelectors": [{"matchLabels": {"view": "true"}}]}))
                .unwrap();
        let verbs: Vec<_> = aggregated_rules(&rule, "own", &roles.iter())
            .iter()
            .map(|rule| rule["verbs"][0].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(verbs, ["get", "list", "watch"]);
    }

    #[test]
    fn omits_rules_without_selected_roles() {
        let role = ClusterRole::default();
        assert_eq!(apply_configuration(&role, &[]).get("rules"), None);
        let rules = [json!({"verbs": ["get"]})];
        assert_eq!(apply_configuration(&role, &rules)["rules"], json!(rules));
    }
}
