//! Cluster roles that are made of others: the rules of all that their selectors mean.

use std::collections::HashSet;

use kubecontroller::{
    Key,
    controller::{Outcome, reconcile_fn},
    object::Object,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    context::{Context, Task},
    objects::{Meta, Selector, object},
    resource::CLUSTER_ROLES,
    writer::{Made, Place, is},
};

/// In whose name the rules are.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// A cluster role.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Role {
    metadata: Meta,
    /// Kept as they are: they are only copied and compared.
    rules: Option<Vec<Value>>,
    aggregation_rule: Option<Aggregation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Aggregation {
    cluster_role_selectors: Vec<Selector>,
}

object!(Role);

/// What runs.
pub(crate) fn make(context: &Context) -> Vec<Task> {
    let roles = context.informer::<Role>(&CLUSTER_ROLES);
    let aggregated = roles.store().index(|role| match role.aggregation_rule {
        Some(_) => vec![String::new()],
        None => Vec::new(),
    });
    let (store, writer) = (roles.store().clone(), context.writer.clone());
    let concerned = aggregated.clone();
    let runner = context
        .controller("clusterrole-aggregation")
        // Whichever role changes, those that are made of others may change with it, and there are few.
        .watches(&roles, move |_| {
            concerned
                .get("")
                .iter()
                .map(|role| role.key())
                .collect::<Vec<Key>>()
        })
        .reconciler(reconcile_fn(move |request| {
            let (roles, store, writer) = (roles.clone(), store.clone(), writer.clone());
            async move {
                let Some(role) = store.get(&request.key) else {
                    return Ok(Outcome::Done);
                };
                let Some(rule) = &role.aggregation_rule else {
                    return Ok(Outcome::Done);
                };
                let mut all = store.all();
                all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
                let rules = gathered(rule, &role.metadata.name, &all.iter().map(|role| &**role));
                if role.rules.as_deref().unwrap_or_default() == rules {
                    return Ok(Outcome::Done);
                }
                let place = Place::new(&CLUSTER_ROLES, "", request.key.name());
                let applied = applied(&role, &rules);
                match writer.apply::<Made>(place, MANAGER, &applied).await {
                    Ok(made) => request.record_write(&roles, &made.metadata.resource_version),
                    Err(error) if is(&error, 404) => {}
                    Err(error) => return Err(error.into()),
                }
                Ok(Outcome::Done)
            }
        }));
    vec![Box::new(runner)]
}

/// What is applied. Where no role is meant nothing is said of rules: those that somebody else wrote stay. With the uid, so that
/// a role that is gone is not made anew.
fn applied(role: &Role, rules: &[Value]) -> Value {
    let Meta { name, uid, .. } = &role.metadata;
    let mut applied = json!({
        "apiVersion": CLUSTER_ROLES.api_version(), "kind": CLUSTER_ROLES.kind,
        "metadata": {"name": name, "uid": uid},
    });
    if !rules.is_empty() {
        applied["rules"] = rules.into();
    }
    applied
}

/// The rules of the roles that are meant, each once, in the order of the selectors and then of the roles.
fn gathered<'r>(
    rule: &Aggregation,
    own: &str,
    roles: &(impl Iterator<Item = &'r Role> + Clone),
) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    // By their texts: there may be very many.
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
    fn rules_are_gathered_once_each_and_never_from_oneself() {
        let role = |name: &str, label: &str, verbs: &[&str]| -> Role {
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
        let rule: Aggregation =
            serde_json::from_value(json!({"clusterRoleSelectors": [{"matchLabels": {"view": "true"}}]}))
                .unwrap();
        let verbs: Vec<_> = gathered(&rule, "own", &roles.iter())
            .iter()
            .map(|rule| rule["verbs"][0].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(verbs, ["get", "list", "watch"]);
    }

    #[test]
    fn nothing_is_said_of_rules_where_none_are_gathered() {
        let role = Role::default();
        assert_eq!(applied(&role, &[]).get("rules"), None);
        let rules = [json!({"verbs": ["get"]})];
        assert_eq!(applied(&role, &rules)["rules"], json!(rules));
    }
}
