//! Aggregated discovery (KEP-3352): everything below `/api` or `/apis` in one document.

use serde_json::{Value, json};

use super::group::{DiscoveryGroup, DiscoveryResource, DiscoverySubresource};

/// The group of these documents.
pub(super) const GROUP: &str = "apidiscovery.k8s.io";
/// The one version that is still served.
pub(super) const VERSION: &str = "v2";
/// Their kind.
pub(super) const KIND: &str = "APIGroupDiscoveryList";

/// The aggregated discovery document (APIGroupDiscoveryList, KEP-3352) of some groups.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/aggregated/handler.go calculateAPIGroupsLocked
pub(super) fn document<'g>(groups: impl Iterator<Item = &'g DiscoveryGroup>) -> Value {
    let items: Vec<_> = groups.map(item).collect();
    json!({
        "kind": KIND,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {},
        "items": items,
    })
}

fn item(group: &DiscoveryGroup) -> Value {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| {
            let resources: Vec<_> = version.resources.iter().map(resource).collect();
            json!({"version": version.name, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = match group.name.as_str() {
        "" => json!({}),
        name => json!({"name": name}),
    };
    json!({"metadata": metadata, "versions": versions})
}

fn resource(resource: &DiscoveryResource) -> Value {
    let (group, version) = group_version_or_empty(resource.group_version.as_ref());
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    for (name, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            entry[name] = json!(names);
        }
    }
    if !resource.subresources.is_empty() {
        let parts = resource.subresources.iter();
        entry["subresources"] = parts.map(|part| self::part(part, resource)).collect();
    }
    entry
}

/// Group and version of a kind, as far as they are said.
fn group_version_or_empty(group_version: Option<&(String, String)>) -> (&str, &str) {
    group_version.map_or(("", ""), |(group, version)| (group, version))
}

/// Group and version of a kind are said only where they are not those around it, or those are said too.
fn part(part: &DiscoverySubresource, of: &DiscoveryResource) -> Value {
    let (group, version) = group_version_or_empty(part.of.as_ref().or(of.group_version.as_ref()));
    json!({
        "subresource": part.name,
        "responseKind": {"group": group, "version": version, "kind": part.kind},
        "verbs": part.verbs,
    })
}
