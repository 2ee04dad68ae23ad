//! The RBAC roles and bindings of a new cluster.

// upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go ClusterRoles, ClusterRoleBindings

use serde_json::{Map, Value, json};

use super::table::{Entry, entries, list, malformed, subject};
use crate::strategy::TreeMut;

const TABLE: &str = include_str!("roles.table");
const GROUP: &str = "rbac.authorization.k8s.io";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The roles for the whole cluster. Those that collect the rules of others have none of their own yet.
pub fn cluster_roles() -> impl Iterator<Item = Value> {
    entries(TABLE, "clusterrole").map(|entry| role(&entry, "ClusterRole"))
}

/// The bindings of roles for the whole cluster.
pub fn cluster_role_bindings() -> impl Iterator<Item = Value> {
    entries(TABLE, "clusterrole").filter_map(|entry| binding(&entry, "ClusterRole"))
}

/// The roles in namespaces.
pub fn roles() -> impl Iterator<Item = Value> {
    entries(TABLE, "role").map(|entry| role(&entry, "Role"))
}

/// The bindings of roles in namespaces.
pub fn role_bindings() -> impl Iterator<Item = Value> {
    entries(TABLE, "role").filter_map(|entry| binding(&entry, "Role"))
}

fn role(entry: &Entry, kind: &str) -> Value {
    let mut object = object(entry, kind, name(entry));
    let mut rules = Vec::new();
    for line in &entry.lines {
        match line[..] {
            ["bound", ..] => {}
            ["into", to] => {
                let labels = object.ensure_object("metadata").ensure_object("labels");
                labels.set(&format!("{AGGREGATE}{to}"), "true");
            }
            ["from", to] => {
                let labels = Map::from_iter([(format!("{AGGREGATE}{to}"), json!("true"))]);
                object.set(
                    "aggregationRule",
                    json!({"clusterRoleSelectors": [{"matchLabels": labels}]}),
                );
            }
            [verbs, "url", paths] => {
                rules.push(json!({"verbs": list(verbs), "nonResourceURLs": list(paths)}));
            }
            [verbs, groups, resources, ref names @ ..] => {
                let mut rule =
                    json!({"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)});
                if let [names] = names {
                    rule.set("resourceNames", list(names));
                }
                rules.push(rule);
            }
            _ => malformed(line),
        }
    }
    let collects = object.get("aggregationRule").is_some();
    object.set("rules", if collects { Value::Null } else { rules.into() });
    object
}

fn binding(entry: &Entry, kind: &str) -> Option<Value> {
    let line = entry.lines.iter().find(|line| line.first() == Some(&"bound"))?;
    let [_, name_of_binding, subjects @ ..] = &line[..] else {
        malformed(line)
    };
    let mut object = object(entry, &format!("{kind}Binding"), name_of_binding);
    object.set(
        "roleRef",
        json!({"apiGroup": GROUP, "kind": kind, "name": name(entry)}),
    );
    if !subjects.is_empty() {
        let subjects: Value = subjects.iter().map(|word| bound(word)).collect();
        object.set("subjects", subjects);
    }
    Some(object)
}

fn bound(word: &'static str) -> Value {
    match subject(word) {
        ("user", name) => json!({"kind": "User", "apiGroup": GROUP, "name": name}),
        ("group", name) => json!({"kind": "Group", "apiGroup": GROUP, "name": name}),
        (_, account) => match account.split_once('/') {
            Some((namespace, name)) => {
                json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
            }
            None => malformed(&[word]),
        },
    }
}

/// The last word of an entry.
fn name(entry: &Entry) -> &'static str {
    entry.tokens.last().copied().unwrap_or_default()
}

fn object(entry: &Entry, kind: &str, name: &str) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    });
    if let [namespace, _] = entry.tokens[..] {
        metadata.set("namespace", namespace);
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata})
}
