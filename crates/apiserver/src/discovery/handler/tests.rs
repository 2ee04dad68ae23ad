//! What clients get to see.

use serde_json::{Value, json};

use super::*;
use crate::discovery::version;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn discovery() -> Discovery {
    Discovery::new(DiscoveryGroup::builtin(), "10.0.0.1:6443".to_owned())
}

fn body(answer: HttpResponse) -> Vec<u8> {
    match answer.into_body() {
        ResponseBody::Whole(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

fn header_of(answer: &HttpResponse, name: header::HeaderName) -> String {
    answer
        .headers()
        .get(name)
        .map(|value| value.to_str().unwrap().to_owned())
        .unwrap_or_default()
}

fn aggregated_half(path: &str) -> Value {
    let answer = discovery()
        .answer(path, AGGREGATED, "", JsonLayout::Compact)
        .unwrap();
    serde_json::from_slice(&body(answer)).unwrap()
}

/// The facts of the API, where they are at hand.
fn facts() -> Option<Value> {
    let directory = std::env::var_os("K3_FACTS")?;
    let text = std::fs::read(std::path::Path::new(&directory).join("discovery.json")).ok()?;
    serde_json::from_slice(&text).ok()
}

#[test]
fn core_group_has_server_address_and_no_api_version() {
    let known = discovery();
    assert_eq!(
        known.legacy("/api").unwrap(),
        json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.0.0.1:6443"}],
        })
    );
    let resources = known.legacy("/api/v1").unwrap();
    assert_eq!(resources["groupVersion"], "v1");
    assert_eq!(resources.get("apiVersion"), None);
}

#[test]
fn preferred_version_is_first() {
    let group = discovery().legacy("/apis/autoscaling").unwrap();
    let version = |name: &str| json!({"groupVersion": format!("autoscaling/{name}"), "version": name});
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": "autoscaling",
            "versions": [version("v2"), version("v1")],
            "preferredVersion": version("v2"),
        })
    );
    let groups = discovery().legacy("/apis").unwrap();
    let names: Vec<_> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| &group["name"])
        .collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert!(!names.contains(&&json!("")));
}

#[test]
fn subresource_names_foreign_group() {
    let resources = discovery().legacy("/api/v1").unwrap();
    let entry = |name: &str| {
        let list = resources["resources"].as_array().unwrap();
        list.iter().find(|entry| entry["name"] == name).unwrap().clone()
    };
    let eviction = entry("pods/eviction");
    assert_eq!(eviction["group"], "policy");
    assert_eq!(eviction["version"], "v1");
    assert_eq!(eviction["singularName"], "");
    assert_eq!(entry("pods/status").get("group"), None);
    assert_eq!(entry("pods")["storageVersionHash"], "xPOwRZ+Yhw8=");
    assert_eq!(entry("bindings").get("storageVersionHash"), None);
}

#[test]
fn storage_hash_follows_storage_version() {
    let hash = |path: &str, name: &str| {
        let resources = discovery().legacy(path).unwrap();
        let list = resources["resources"].as_array().unwrap().clone();
        let entry = list.into_iter().find(|entry| entry["name"] == name).unwrap();
        entry["storageVersionHash"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        hash("/apis/events.k8s.io/v1", "events"),
        hash("/api/v1", "events")
    );
    assert_eq!(
        hash("/apis/autoscaling/v1", "horizontalpodautoscalers"),
        "qwQve8ut294="
    );
    assert_eq!(
        hash("/apis/certificates.k8s.io/v1", "clustertrustbundles"),
        "v5yhuVertL4="
    );
}

#[test]
fn unknown_paths_are_not_found() {
    for path in [
        "/api/v2",
        "/apis/bogus",
        "/apis/apps/v2",
        "/apis/apps/v1/deployments",
        "/apis//v1",
        "/apix",
    ] {
        assert!(
            discovery().answer(path, "", "", JsonLayout::Compact).is_none(),
            "{path}"
        );
    }
    assert!(
        discovery()
            .answer("/apis/apps/v1/", "", "", JsonLayout::Compact)
            .is_some()
    );
}

#[test]
fn matching_etag_returns_not_modified() {
    let known = discovery();
    let first = known
        .answer("/apis", AGGREGATED, "", JsonLayout::Compact)
        .unwrap();
    assert_eq!(first.status(), 200);
    assert_eq!(header_of(&first, header::CONTENT_TYPE), AGGREGATED);
    assert_eq!(header_of(&first, header::VARY), "Accept");
    let tag = header_of(&first, header::ETAG);
    assert_eq!(tag.len(), 130);
    let again = known
        .answer("/apis", AGGREGATED, &tag, JsonLayout::Compact)
        .unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(header_of(&again, header::ETAG), tag);
    assert!(body(again).is_empty());
    let other = known
        .answer("/api", AGGREGATED, &tag, JsonLayout::Compact)
        .unwrap();
    assert_eq!(other.status(), 200);
}

#[test]
fn etag_follows_content() {
    let tag = |known: &Discovery| {
        header_of(
            &known
                .answer("/apis", AGGREGATED, "", JsonLayout::Compact)
                .unwrap(),
            header::ETAG,
        )
    };
    let mut groups = DiscoveryGroup::builtin();
    groups.pop();
    assert_eq!(tag(&discovery()), tag(&discovery()));
    assert_ne!(tag(&discovery()), tag(&Discovery::new(groups, String::new())));
}

#[test]
fn first_satisfiable_accept_clause_wins() {
    let media = |accept: &str| {
        let answer = discovery()
            .answer("/apis", accept, "", JsonLayout::Compact)
            .unwrap();
        (answer.status().as_u16(), header_of(&answer, header::CONTENT_TYPE))
    };
    let beta = AGGREGATED.replace("v=v2", "v=v2beta1");
    assert_eq!(
        media(&format!("{beta},{AGGREGATED},application/json")),
        (200, AGGREGATED.to_owned())
    );
    assert_eq!(
        media(&format!("{beta},application/json")),
        (200, "application/json".to_owned())
    );
    assert_eq!(
        media(&format!("application/json,{AGGREGATED}")),
        (200, "application/json".to_owned())
    );
    assert_eq!(media("*/*"), (200, "application/json".to_owned()));
    assert_eq!(media(&beta).0, 406);
    assert_eq!(
        media(&AGGREGATED.replace("v=v2", "v=v9")),
        (406, "application/json".to_owned())
    );
}

#[test]
fn documents_round_trip_protobuf() {
    let known = discovery();
    let proto = "application/vnd.kubernetes.protobuf";
    for (path, kind) in [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/apps", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/apps/v1", "APIResourceList"),
    ] {
        let answer = known.answer(path, proto, "", JsonLayout::Compact).unwrap();
        assert_eq!(header_of(&answer, header::CONTENT_TYPE), proto);
        let ty = schema().get("meta", "v1", kind).unwrap();
        let read = protobuf::decode(&body(answer), ty).unwrap();
        assert_eq!(read, known.legacy(path).unwrap(), "{path}");
    }
    let wanted = format!("{proto};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    let answer = known.answer("/apis", &wanted, "", JsonLayout::Compact).unwrap();
    assert_eq!(header_of(&answer, header::CONTENT_TYPE), wanted);
    let ty = schema()
        .get("apidiscovery", "v2", "APIGroupDiscoveryList")
        .unwrap();
    assert_eq!(
        protobuf::decode(&body(answer), ty).unwrap(),
        aggregated_half("/apis")
    );
}

#[test]
fn aggregated_documents_match_recording() {
    let Some(facts) = facts() else {
        println!("left out: no facts (set K3_FACTS)");
        return;
    };
    let mut seen = Vec::new();
    for half in ["/api", "/apis"] {
        for group in aggregated_half(half)["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                for resource in version["resources"].as_array().unwrap() {
                    let group = group["metadata"].get("name").cloned().unwrap_or(json!(""));
                    seen.push((group, version["version"].clone(), resource.clone()));
                }
            }
        }
    }
    let facts = facts.as_array().unwrap();
    assert_eq!(seen.len(), facts.len());
    for ((group, version, resource), fact) in seen.iter().zip(facts) {
        let at = &fact["resource"];
        assert_eq!((group, version), (&fact["group"], &fact["version"]), "{at}");
        assert_eq!(&resource["resource"], at);
        assert_eq!(resource["singularResource"], fact["singular"], "{at}");
        for name in ["scope", "verbs", "shortNames", "categories"] {
            assert_eq!(resource.get(name), fact.get(name), "{at} {name}");
        }
        assert_eq!(resource["responseKind"]["kind"], fact["kind"], "{at}");
        let parts = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ours = parts(&resource["subresources"]);
        let theirs = parts(&fact["subresources"]);
        assert_eq!(ours.len(), theirs.len(), "{at}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours["subresource"], theirs["subresource"], "{at}");
            assert_eq!(ours["responseKind"]["kind"], theirs["kind"], "{at}");
            assert_eq!(ours["verbs"], theirs["verbs"], "{at}");
        }
    }
}

#[test]
fn index_is_sorted_and_unique() {
    let index = discovery().index(&["/healthz", "/version"]);
    let paths: Vec<_> = index["paths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap())
        .collect();
    for path in [
        "/api/v1",
        "/apis/apps",
        "/apis/autoscaling/v1",
        "/healthz",
        "/openapi/v3",
        "/version",
    ] {
        assert!(paths.contains(&path), "{path}");
    }
    assert!(paths.is_sorted_by(|a, b| a < b), "{paths:?}");
}

#[test]
fn version_is_upstream_with_suffix() {
    let text = version()["gitVersion"].as_str().unwrap().to_owned();
    assert!(text.starts_with("v1.37.0+k3."), "{text}");
}
