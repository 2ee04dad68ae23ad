//! What clients get to see.

use serde_json::Value;

use super::*;

fn body(answer: HttpResponse) -> Vec<u8> {
    match answer.into_body() {
        ResponseBody::Whole(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

fn get(path: &str) -> Value {
    let answer = OpenApi::new().answer(path, "", "", "", &|_| None).unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    serde_json::from_slice(&body(answer)).unwrap()
}

fn header_of(answer: &HttpResponse, name: header::HeaderName) -> String {
    let value = answer.headers().get(name);
    value
        .map(|value| value.to_str().unwrap().to_owned())
        .unwrap_or_default()
}

fn definition<'d>(document: &'d Value, name: &str) -> &'d Value {
    &document["components"]["schemas"][name]
}

/// A file of facts, where they are at hand.
fn facts(variable: &str, name: &str) -> Option<Value> {
    let Some(directory) = std::env::var_os(variable) else {
        println!("left out: no facts (set {variable})");
        return None;
    };
    let text = std::fs::read(std::path::Path::new(&directory).join(name)).ok()?;
    serde_json::from_slice(&text).ok()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn definition_has_description_required_fields_and_gvk() {
    let document = get("/openapi/v3/apis/apps/v1");
    let deployment = definition(&document, "io.k8s.api.apps.v1.Deployment");
    assert_eq!(
        deployment["description"],
        "Deployment enables declarative updates for Pods and ReplicaSets."
    );
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "version": "v1", "kind": "Deployment"}])
    );
    let spec = definition(&document, "io.k8s.api.apps.v1.DeploymentSpec");
    assert_eq!(spec["required"], json!(["selector", "template"]));
    assert_eq!(
        spec["properties"]["strategy"]["x-kubernetes-patch-strategy"],
        "retainKeys"
    );
    assert_eq!(
        spec["properties"]["template"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}])
    );
}

#[test]
fn definitions_have_merge_extensions() {
    let document = get("/openapi/v3/api/v1");
    let ports = &definition(&document, "io.k8s.api.core.v1.Container")["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-type"], "map");
    assert_eq!(
        ports["x-kubernetes-list-map-keys"],
        json!(["containerPort", "protocol"])
    );
    assert_eq!(ports["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    let protocol = &definition(&document, "io.k8s.api.core.v1.ContainerPort")["properties"]["protocol"];
    assert_eq!(protocol["default"], "TCP");
    let spec = &definition(&document, "io.k8s.api.core.v1.PodSpec")["properties"];
    assert_eq!(spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
    let reference = definition(&document, "io.k8s.api.core.v1.ObjectReference");
    assert_eq!(reference["x-kubernetes-map-type"], "atomic");
    let claim = &definition(&document, "io.k8s.api.core.v1.PersistentVolumeSpec")["properties"]["claimRef"];
    assert_eq!(claim["x-kubernetes-map-type"], "granular");
}

#[test]
fn every_ref_resolves() {
    fn check(value: &Value, known: &Value, seen: &mut usize) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let name = reference.rsplit('/').next().unwrap();
                    assert!(known.get(name).is_some(), "{reference}");
                    *seen += 1;
                }
                fields.values().for_each(|value| check(value, known, seen));
            }
            Value::Array(list) => list.iter().for_each(|value| check(value, known, seen)),
            _ => {}
        }
    }
    let mut seen = 0;
    for path in [
        "/openapi/v3/apis/apiextensions.k8s.io/v1",
        "/openapi/v3/apis/batch/v1",
    ] {
        let document = get(path);
        check(&document, &document["components"]["schemas"], &mut seen);
    }
    let document = get("/openapi/v2");
    check(&document, &document["definitions"], &mut seen);
    assert!(seen > 1000, "{seen}");
}

#[test]
fn paths_have_ids_actions_and_gvk() {
    let document = get("/openapi/v3/api/v1");
    let operation = |path: &str, method: &str| document["paths"][path][method].clone();
    for (path, method, id, action) in [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "list"),
        (
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "deleteCoreV1CollectionNamespacedPod",
            "deletecollection",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            "patch",
            "patchCoreV1NamespacedPodStatus",
            "patch",
        ),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connectCoreV1PostNamespacedPodExec",
            "connect",
        ),
        (
            "/api/v1/nodes/{name}/proxy/{path}",
            "head",
            "connectCoreV1HeadNodeProxyWithPath",
            "connect",
        ),
        (
            "/api/v1/watch/namespaces/{namespace}/pods",
            "get",
            "watchCoreV1NamespacedPodList",
            "watchlist",
        ),
        (
            "/api/v1/namespaces/{name}/finalize",
            "put",
            "replaceCoreV1NamespaceFinalize",
            "put",
        ),
    ] {
        let operation = operation(path, method);
        assert_eq!(operation["operationId"], id, "{path}");
        assert_eq!(operation["x-kubernetes-action"], action, "{path}");
    }
    let scale = operation(
        "/api/v1/namespaces/{namespace}/replicationcontrollers/{name}/scale",
        "put",
    );
    assert_eq!(
        scale["x-kubernetes-group-version-kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    // kubectl asks this one whether the server knows dry runs and strict validation.
    let patch = operation("/api/v1/namespaces/{namespace}/pods/{name}", "patch");
    let names: Vec<_> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["name"])
        .collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
}

#[test]
fn index_links_are_cacheable() {
    let known = OpenApi::new();
    let index = known.answer("/openapi/v3", "", "", "", &|_| None).unwrap();
    assert_eq!(
        header_of(&index, header::CONTENT_TYPE),
        "text/plain; charset=utf-8"
    );
    let index: Value = serde_json::from_slice(&body(index)).unwrap();
    let url = index["paths"]["apis/batch/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    let (path, hash) = url.split_once("?hash=").unwrap();
    let part = known
        .answer(path, hash, "application/json", "", &|_| None)
        .unwrap();
    assert_eq!(part.status(), 200);
    assert_eq!(header_of(&part, header::CACHE_CONTROL), FOR_EVER);
    let tag = header_of(&part, header::ETAG);
    assert_eq!(tag, format!("\"{hash}\""));
    assert_eq!(
        known.answer(path, hash, "", &tag, &|_| None).unwrap().status(),
        304
    );
    let moved = known.answer(path, "OLD", "", "", &|_| None).unwrap();
    assert_eq!(
        (
            moved.status().as_u16(),
            header_of(&moved, header::LOCATION).as_str()
        ),
        (301, url)
    );
}

#[test]
fn unknown_documents_are_not_found() {
    let known = OpenApi::new();
    let code = |path: &str, accept: &str| {
        known
            .answer(path, "", accept, "", &|_| None)
            .unwrap()
            .status()
            .as_u16()
    };
    assert_eq!(code("/openapi/v3/apis/bogus/v1", ""), 404);
    assert_eq!(code("/openapi/v3/version", "text/html"), 406);
    assert_eq!(code("/openapi/v2", "text/html"), 406);
    assert!(known.answer("/openapi/v4", "", "", "", &|_| None).is_none());
}

#[test]
fn serves_v2_as_json_and_protobuf() {
    let known = OpenApi::new();
    let json = known
        .answer("/openapi/v2", "", "application/json", "", &|_| None)
        .unwrap();
    assert_eq!(header_of(&json, header::CONTENT_TYPE), JSON);
    let document: Value = serde_json::from_slice(&body(json)).unwrap();
    assert_eq!(document["swagger"], "2.0");
    let quantity = &document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["type"], "string");
    let proto = known
        .answer("/openapi/v2", "", PROTOBUF_SPELLED, "", &|_| None)
        .unwrap();
    assert_eq!(header_of(&proto, header::CONTENT_TYPE), PROTOBUF);
    let message = body(proto);
    assert_eq!(message[..5], *b"\x0a\x032.0");
    for (name, number) in [("paths", 8), ("definitions", 9)] {
        assert_eq!(entries(&message, number), keys(&document[name]).len(), "{name}");
    }
}

/// How many entries a message within the document has.
fn entries(message: &[u8], number: u32) -> usize {
    let inner = split(message)
        .into_iter()
        .find(|(found, _)| *found == number)
        .unwrap()
        .1;
    split(inner).len()
}

/// The fields of a message of messages.
fn split(mut message: &[u8]) -> Vec<(u32, &[u8])> {
    fn varint(message: &mut &[u8]) -> u32 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        assert_eq!(tag & 7, 2);
        let length = varint(&mut message) as usize;
        fields.push((tag >> 3, &message[..length]));
        message = &message[length..];
    }
    fields
}

#[test]
fn paths_and_definitions_match_recordings() {
    for (case, path) in [
        ("openapi-v3-index", "/openapi/v3"),
        ("openapi-v3-core", "/openapi/v3/api/v1"),
        ("openapi-v3-core-schemas", "/openapi/v3/api/v1"),
        ("openapi-v3-apps-schemas", "/openapi/v3/apis/apps/v1"),
        ("openapi-v3-batch", "/openapi/v3/apis/batch/v1"),
        ("openapi-v3-networking", "/openapi/v3/apis/networking.k8s.io/v1"),
    ] {
        let Some(fact) = facts("K3_GOLDEN", &format!("cases/discovery/{case}.json")) else {
            return;
        };
        let step = &fact["steps"][0];
        assert_eq!(step["path"], path);
        let document = get(path);
        let mut ours = keys(document.pointer(step["keys"].as_str().unwrap()).unwrap());
        ours.sort_unstable();
        let mut theirs: Vec<_> = step["expect"]["body"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{case}");
    }
}

#[test]
fn actions_match_recording() {
    let Some(facts) = facts("K3_FACTS", "paths.json") else {
        return;
    };
    let document = get("/openapi/v2");
    for fact in facts.as_array().unwrap() {
        let path = fact["path"].as_str().unwrap();
        // The facts also have versions that are not stable, which are not served.
        if ["/v1alpha", "/v1beta"]
            .iter()
            .any(|version| path.contains(version))
        {
            continue;
        }
        let item = document["paths"][path]
            .as_object()
            .unwrap_or_else(|| panic!("no {path}"));
        let mut actions: Vec<_> = item
            .values()
            .filter_map(|operation| operation["x-kubernetes-action"].as_str())
            .collect();
        actions.sort_unstable();
        actions.dedup();
        assert_eq!(json!(actions), fact["actions"], "{path}");
    }
}

#[test]
fn defaults_and_required_match_recording() {
    let Some(facts) = facts("K3_FACTS", "field-facts.json") else {
        return;
    };
    let known = OpenApi::new();
    let mut definitions = Map::new();
    for name in known.parts.keys() {
        let answer = known
            .answer(&format!("/openapi/v3/{name}"), "", "", "", &|_| None)
            .unwrap();
        let mut document: Value = serde_json::from_slice(&body(answer)).unwrap();
        if let Value::Object(found) = document["components"]["schemas"].take() {
            definitions.extend(found);
        }
    }
    for (name, definition) in &definitions {
        let sorted = |value: &Value| {
            let mut names: Vec<_> = value.as_array().into_iter().flatten().cloned().collect();
            names.sort_by_key(Value::to_string);
            names
        };
        assert_eq!(
            sorted(&definition["required"]),
            sorted(&facts["required"][name]),
            "{name}"
        );
        let wanted = facts["defaults"][name].as_object().cloned().unwrap_or_default();
        for (field, property) in definition["properties"].as_object().into_iter().flatten() {
            let ours = property.get("default").filter(|default| **default != json!({}));
            assert_eq!(ours, wanted.get(field), "{name}.{field}");
        }
    }
    assert!(definitions.len() > 600, "{}", definitions.len());
}
