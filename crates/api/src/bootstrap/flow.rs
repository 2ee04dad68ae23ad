//! Default FlowSchemas and PriorityLevelConfigurations of a new cluster.

// upstream: staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go newPriorityLevelConfiguration, newFlowSchema

use serde_json::{Value, json};

use super::table::{Entry, entries, list, malformed, number, subject};
use crate::strategy::{Tree, TreeMut};

const TABLE: &str = include_str!("flow.table");

/// The names of the flow schemas and priority levels that a cluster cannot be without, and whose spec is fixed.
pub const MANDATORY: [&str; 2] = ["catch-all", "exempt"];

/// The priority levels.
pub fn priority_levels() -> impl Iterator<Item = Value> {
    entries(TABLE, "level").map(|entry| {
        let spec = match entry.tokens[..] {
            [_, "exempt", shares, lendable] => {
                json!({"type": "Exempt", "exempt": {
                    "nominalConcurrencyShares": number(shares),
                    "lendablePercent": number(lendable),
                }})
            }
            [_, "limited", shares, lendable, ref queues @ ..] => {
                let response = match queues {
                    [queues, hand, length] => json!({"type": "Queue", "queuing": {
                        "queues": number(queues),
                        "handSize": number(hand),
                        "queueLengthLimit": number(length),
                    }}),
                    _ => json!({"type": "Reject"}),
                };
                json!({"type": "Limited", "limited": {
                    "nominalConcurrencyShares": number(shares),
                    "lendablePercent": number(lendable),
                    "limitResponse": response,
                }})
            }
            _ => malformed(&entry.tokens),
        };
        object(&entry, "PriorityLevelConfiguration", &spec)
    })
}

/// The flow schemas.
pub fn flow_schemas() -> impl Iterator<Item = Value> {
    entries(TABLE, "schema").map(|entry| {
        let [_, precedence, level, distinguisher] = entry.tokens[..] else {
            malformed(&entry.tokens)
        };
        let mut spec = json!({
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": number(precedence),
            "rules": [rule(&entry)],
        });
        if distinguisher != "-" {
            spec.set("distinguisherMethod", json!({"type": distinguisher}));
        }
        object(&entry, "FlowSchema", &spec)
    })
}

/// The status of a flow schema whose priority level exists, since the time `now`.
pub fn flow_schema_found(schema: &Value, now: &str) -> Value {
    let level = schema.at_path("spec.priorityLevelConfiguration").text("name");
    json!({"conditions": [{
        "type": "Dangling",
        "status": "False",
        "lastTransitionTime": now,
        "reason": "Found",
        "message": format!(
            "This FlowSchema references the PriorityLevelConfiguration object named {level:?} and it exists"
        ),
    }]})
}

fn rule(entry: &Entry) -> Value {
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    let mut subjects = Vec::new();
    for line in &entry.lines {
        match line[..] {
            ["for", ref tokens @ ..] => subjects.extend(tokens.iter().map(|word| match subject(word) {
                ("user", name) => json!({"kind": "User", "user": {"name": name}}),
                ("group", name) => json!({"kind": "Group", "group": {"name": name}}),
                (_, account) => {
                    let (namespace, name) = account.split_once('/').unwrap_or_else(|| malformed(line));
                    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}})
                }
            })),
            [verbs, "url", urls] => {
                paths.push(json!({"verbs": list(verbs), "nonResourceURLs": list(urls)}));
            }
            [verbs, groups, names, scope, namespaces] => {
                let mut rule = json!({
                    "verbs": list(verbs),
                    "apiGroups": list(groups),
                    "resources": list(names),
                    "namespaces": list(namespaces),
                });
                if scope == "cluster" {
                    rule.set("clusterScope", true);
                }
                resources.push(rule);
            }
            _ => malformed(line),
        }
    }
    let mut rule = json!({"subjects": subjects});
    for (name, rules) in [("resourceRules", resources), ("nonResourceRules", paths)] {
        if !rules.is_empty() {
            rule.set(name, rules);
        }
    }
    rule
}

fn object(entry: &Entry, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": entry.tokens.first(),
            "generation": 1,
            "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
        },
        "spec": spec,
        "status": {},
    })
}
