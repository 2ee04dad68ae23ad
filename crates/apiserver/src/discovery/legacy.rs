//! Unaggregated discovery documents: APIVersions, APIGroupList, APIGroup, APIResourceList.

use serde_json::{Value, json};

use super::group::{DiscoveryGroup, DiscoveryResource, DiscoveryVersion};

/// `/api`: the versions of the core group.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/legacy.go ServeHTTP
pub(super) fn core(group: &DiscoveryGroup, address: &str) -> Value {
    let versions: Vec<_> = group.versions.iter().map(|version| &version.name).collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all groups but the core group.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/root.go ServeHTTP
pub(super) fn groups<'g>(groups: impl Iterator<Item = &'g DiscoveryGroup>) -> Value {
    let groups: Vec<_> = groups.map(|group| Value::Object(fields(group))).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`: the versions of a group.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/group.go ServeHTTP
pub(super) fn group(group: &DiscoveryGroup) -> Value {
    let mut document = fields(group);
    document.insert("kind".to_owned(), json!("APIGroup"));
    document.insert("apiVersion".to_owned(), json!("v1"));
    Value::Object(document)
}

/// `/api/v1` and `/apis/<group>/<version>`: the resources of a version. Those of the core group have no
/// apiVersion: clients older than the field are still served.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/discovery/version.go ServeHTTP
pub(super) fn resources(group: &DiscoveryGroup, version: &DiscoveryVersion) -> Value {
    let resources: Vec<_> = version.resources.iter().flat_map(entries).collect();
    let mut document = json!({
        "kind": "APIResourceList",
        "groupVersion": group.api_version(version),
        "resources": resources,
    });
    if !group.name.is_empty() {
        document["apiVersion"] = json!("v1");
    }
    document
}

fn fields(group: &DiscoveryGroup) -> serde_json::Map<String, Value> {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| json!({"groupVersion": group.api_version(version), "version": version.name}))
        .collect();
    let mut fields = serde_json::Map::new();
    fields.insert("name".to_owned(), json!(group.name));
    fields.insert("preferredVersion".to_owned(), json!(versions.first()));
    fields.insert("versions".to_owned(), Value::Array(versions));
    fields
}

/// The entry of a resource, then those of its parts.
fn entries(resource: &DiscoveryResource) -> Vec<Value> {
    let mut own = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    for (name, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            own[name] = json!(names);
        }
    }
    if let Some(hash) = &resource.storage_hash {
        own["storageVersionHash"] = json!(hash);
    }
    let mut entries = vec![own];
    entries.extend(resource.subresources.iter().map(|part| {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, part.name),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": part.kind,
            "verbs": part.verbs,
        });
        if let Some((group, version)) = &part.of {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        entry
    }));
    entries
}
