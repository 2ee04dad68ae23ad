//! Discovery of the registered and stored resources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{FakeApiState, response_format::kind_of};

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Serves a path that names no resource; none if it does not exist.
pub(super) fn serve(inner: &FakeApiState, path: &str, accept: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        [root @ ("api" | "apis")] if accept.contains("as=APIGroupDiscoveryList") => {
            Some(aggregated(inner, root))
        }
        ["version"] => Some(json!({
            "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
        })),
        ["healthz" | "livez" | "readyz"] => Some("ok".into()),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(inner)})),
        ["api", version] => Some(resources(inner, "", version)),
        ["apis", group, version] => Some(resources(inner, group, version)),
        _ => None,
    }
}

/// All resources below a root as `APIGroupDiscoveryList`: `api` has the core group, `apis` all others.
fn aggregated(inner: &FakeApiState, root: &str) -> Value {
    let cluster = inner.cluster();
    let mut found: BTreeMap<&str, BTreeMap<&str, Vec<Value>>> = BTreeMap::new();
    for (id, stored) in cluster
        .resources()
        .filter(|(id, _)| id.group.is_empty() == (root == "api"))
    {
        let version = if stored.version.is_empty() {
            "v1"
        } else {
            &stored.version
        };
        let resource = json!({
            "resource": id.plural, "responseKind": {"kind": named(&stored.kind, &id.plural)},
            "scope": if stored.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
        });
        let group = found.entry(id.group.as_str()).or_default();
        group.entry(version).or_default().push(resource);
    }
    let versions = |versions: &BTreeMap<&str, Vec<Value>>| {
        let one = |(version, resources)| json!({"version": version, "freshness": "Current", "resources": resources});
        versions.iter().map(one).collect::<Vec<_>>()
    };
    let items: Vec<Value> = found
        .iter()
        .map(|(group, of_group)| json!({"metadata": {"name": group}, "versions": versions(of_group)}))
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})
}

/// The known kind of a resource, or a guess from its plural.
fn named(kind: &str, plural: &str) -> String {
    if kind.is_empty() {
        kind_of(plural)
    } else {
        kind.to_owned()
    }
}

fn groups(inner: &FakeApiState) -> Vec<Value> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, stored) in inner.cluster().resources().filter(|(id, _)| !id.group.is_empty()) {
        let version = if stored.version.is_empty() {
            "v1"
        } else {
            &stored.version
        };
        found
            .entry(id.group.clone())
            .or_default()
            .insert(version.to_owned());
    }
    let version = |group: &str, version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    found
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions.iter().map(|one| version(group, one)).collect();
            json!({"name": group, "versions": versions, "preferredVersion": versions.last()})
        })
        .collect()
}

fn resources(inner: &FakeApiState, group: &str, version: &str) -> Value {
    let cluster = inner.cluster();
    let found: Vec<Value> = cluster
        .resources()
        .filter(|(id, stored)| id.group == group && (stored.version == version || stored.version.is_empty()))
        .map(|(id, stored)| {
            let kind = named(&stored.kind, &id.plural);
            json!({
                "name": id.plural,
                "singularName": kind.to_ascii_lowercase(),
                "namespaced": stored.namespaced,
                "kind": kind,
                "verbs": VERBS,
            })
        })
        .collect();
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": found})
}
