//! Reconciles a role or a binding of k3 with the one that a cluster has.
//!
//! Promises: rules, subjects, labels and annotations that are missing are added, so that a later version gets the permissions that
//! it needs. What an administrator added stays, and an object whose annotation `rbac.authorization.kubernetes.io/autoupdate` is
//! `false` is not changed. Other kinds are never changed.
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_role.go computeReconciledRole
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_rolebindings.go computeReconciledRoleBinding

use serde_json::{Map, Value, json};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The existing object with what it lacks of the expected one; `None` if it stays as it is.
pub(super) fn reconciled(existing: &Value, expected: &Value) -> Option<Value> {
    if !is_role_or_binding(expected) || existing["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return None;
    }
    // The subjects of k3 must not get the permissions of another role. Upstream replaces such a binding.
    if existing["roleRef"] != expected["roleRef"] {
        return None;
    }
    let mut reconciled = existing.clone();
    for field in ["labels", "annotations"] {
        for (name, value) in expected["metadata"][field].as_object().into_iter().flatten() {
            if existing["metadata"][field].get(name).is_none() {
                reconciled["metadata"][field][name] = value.clone();
            }
        }
    }
    append(&mut reconciled, "rules", missing_rules(existing, expected));
    append(&mut reconciled, "subjects", missing_subjects(existing, expected));
    (reconciled != *existing).then_some(reconciled)
}

fn is_role_or_binding(object: &Value) -> bool {
    object.get("rules").is_some() || object.get("roleRef").is_some()
}

fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut all = list(&object[field]).to_vec();
    all.extend(items);
    object[field] = all.into();
}

fn missing_subjects(existing: &Value, expected: &Value) -> Vec<Value> {
    let is_same = |one: &Value, other: &Value| {
        ["kind", "name", "namespace"]
            .iter()
            .all(|field| one.get(field) == other.get(field))
    };
    let known = list(&existing["subjects"]);
    let expected = list(&expected["subjects"]).iter();
    let missing = expected.filter(|subject| !known.iter().any(|known| is_same(known, subject)));
    missing.cloned().collect()
}

/// The missing combinations of verb, group, resource and name, a rule each.
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go Covers, BreakdownRule
fn missing_rules(existing: &Value, expected: &Value) -> Vec<Value> {
    let known = list(&existing["rules"]);
    let wanted = list(&expected["rules"]).iter().flat_map(break_down);
    wanted
        .filter(|rule| !known.iter().any(|known| covers(known, rule)))
        .collect()
}

/// Rules of k3 are about resources.
fn break_down(rule: &Value) -> Vec<Value> {
    let names = match list(&rule["resourceNames"]) {
        [] => vec![None],
        names => names.iter().map(Some).collect(),
    };
    let mut single = Vec::new();
    for group in list(&rule["apiGroups"]) {
        for resource in list(&rule["resources"]) {
            for verb in list(&rule["verbs"]) {
                for name in &names {
                    let mut rule = Map::new();
                    rule.insert("verbs".to_owned(), json!([verb]));
                    rule.insert("apiGroups".to_owned(), json!([group]));
                    rule.insert("resources".to_owned(), json!([resource]));
                    if let Some(name) = name {
                        rule.insert("resourceNames".to_owned(), json!([name]));
                    }
                    single.push(rule.into());
                }
            }
        }
    }
    single
}

/// Whether a rule allows what a rule with one verb, group, resource and at most one name allows.
// upstream: staging/src/k8s.io/component-helpers/auth/rbac/validation/policy_comparator.go ruleCovers, resourceCoversAll
fn covers(rule: &Value, single: &Value) -> bool {
    let has = |field: &str| {
        let wanted = &single[field][0];
        list(&rule[field])
            .iter()
            .any(|item| item == "*" || item == wanted)
    };
    let subresource = single["resources"][0].as_str().and_then(|resource| {
        let (_, subresource) = resource.split_once('/')?;
        Some(format!("*/{subresource}"))
    });
    let has_subresource =
        || subresource.is_some_and(|any| list(&rule["resources"]).iter().any(|item| *item == any));
    let names = list(&rule["resourceNames"]);
    has("verbs")
        && has("apiGroups")
        && (has("resources") || has_subresource())
        && (names.is_empty() || names.contains(&single["resourceNames"][0]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: &Value) -> Value {
        json!({"metadata": {"name": "r", "annotations": {AUTO_UPDATE: "true"}}, "rules": rules})
    }

    fn rule(verbs: &[&str], resources: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": ["apps"], "resources": resources})
    }

    #[test]
    fn adds_only_what_is_missing() {
        let expected = role(&json!([rule(&["get", "patch"], &["jobs", "jobs/status"])]));
        for (existing, missing) in [
            (json!([rule(&["*"], &["*"])]), json!([])),
            (json!([rule(&["get", "patch"], &["jobs", "*/status"])]), json!([])),
            (
                json!([
                    rule(&["get"], &["jobs", "jobs/status"]),
                    rule(&["patch"], &["jobs"])
                ]),
                json!([rule(&["patch"], &["jobs/status"])]),
            ),
            (
                json!([{"verbs": ["*"], "apiGroups": ["batch"], "resources": ["*"]}, rule(&["get", "patch"], &["jobs"])]),
                json!([
                    rule(&["get"], &["jobs/status"]),
                    rule(&["patch"], &["jobs/status"])
                ]),
            ),
        ] {
            let found = reconciled(&role(&existing), &expected);
            let mut all = existing.as_array().unwrap().clone();
            all.extend(missing.as_array().unwrap().iter().cloned());
            let updated = (missing != json!([])).then(|| role(&all.into()));
            assert_eq!(found, updated, "{existing}");
        }
    }

    #[test]
    fn a_rule_for_one_name_does_not_cover_all_names() {
        let named = |names: Value| {
            role(
                &json!([{"verbs": ["approve"], "apiGroups": ["g"], "resources": ["signers"], "resourceNames": names}]),
            )
        };
        assert_eq!(reconciled(&named(json!(["a", "b"])), &named(json!(["a"]))), None);
        assert_eq!(reconciled(&named(json!([])), &named(json!(["a"]))), None);
        let extended = reconciled(&named(json!(["a"])), &named(json!([]))).unwrap();
        assert_eq!(
            extended["rules"][1],
            json!({"verbs": ["approve"], "apiGroups": ["g"], "resources": ["signers"]})
        );
    }

    #[test]
    fn adds_subjects_and_keeps_those_of_administrators() {
        let subject =
            |name: &str| json!({"kind": "ServiceAccount", "namespace": "kube-system", "name": name});
        let binding = |names: &[&str]| {
            let subjects: Vec<_> = names.iter().map(|name| subject(name)).collect();
            json!({"metadata": {"name": "b"}, "roleRef": {"name": "r"}, "subjects": subjects})
        };
        let found = reconciled(&binding(&["other"]), &binding(&["own"])).unwrap();
        assert_eq!(found, binding(&["other", "own"]));
        assert_eq!(reconciled(&found, &binding(&["own"])), None);
    }

    #[test]
    fn adds_the_annotation_and_respects_it() {
        let expected = role(&json!([rule(&["get"], &["jobs"])]));
        let plain = json!({"metadata": {"name": "r"}, "rules": expected["rules"]});
        assert_eq!(reconciled(&plain, &expected), Some(expected.clone()));
        let mut excluded = role(&json!([]));
        excluded["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(reconciled(&excluded, &expected), None);
    }

    #[test]
    fn other_kinds_stay_unchanged() {
        let class = |policy: &str| json!({"metadata": {"name": "c"}, "reclaimPolicy": policy});
        assert_eq!(reconciled(&class("Retain"), &class("Delete")), None);
    }
}
