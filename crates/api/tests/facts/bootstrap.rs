//! The objects a cluster is born with.

use std::collections::BTreeMap;

use super::facts;
use k3_api::{bootstrap, kinds::builtin};
use serde_json::Value;

/// Where the facts list the objects of a kind.
const TOPICS: [(&str, &str); 10] = [
    ("ClusterRole", "clusterroles"),
    ("ClusterRoleBinding", "clusterrolebindings"),
    ("ConfigMap", "configmaps"),
    ("FlowSchema", "flowschemas"),
    ("Namespace", "namespaces"),
    ("PriorityClass", "priorityclasses"),
    ("PriorityLevelConfiguration", "prioritylevels"),
    ("Role", "roles"),
    ("RoleBinding", "rolebindings"),
    ("Service", "services"),
];

fn all() -> impl Iterator<Item = Value> {
    let address = [10, 96, 0, 1].into();
    bootstrap::objects().chain([
        bootstrap::kubernetes_service(address, 36443),
        bootstrap::token_tracking("2026-01-02"),
    ])
}

#[test]
fn a_cluster_is_born_with_the_objects_of_the_facts() {
    let Some(theirs) = facts("bootstrap-objects.json") else {
        return;
    };
    let mut ours: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for object in all() {
        let kind = object["kind"].as_str().unwrap();
        let (_, topic) = TOPICS.iter().find(|(known, _)| *known == kind).unwrap();
        ours.entry(topic).or_default().push(object);
    }
    assert_eq!(ours.len(), theirs.as_object().unwrap().len());
    for (topic, objects) in &ours {
        let facts = theirs[topic].as_array().unwrap();
        assert_eq!(objects.len(), facts.len(), "{topic}");
        for fact in facts {
            let field_path = |object: &Value| {
                object["metadata"]["name"] == fact["name"]
                    && object["metadata"].get("namespace") == fact.get("namespace")
            };
            let object = objects.iter().find(|object| field_path(object));
            compare(
                object.unwrap_or_else(|| panic!("{topic}: {}", fact["name"])),
                fact,
            );
        }
    }
}

/// A fact has name, namespace and labels beside the other fields, and leaves the status and what changes out.
fn compare(object: &Value, fact: &Value) {
    for (name, value) in fact.as_object().expect("a fact is an object") {
        let of_metadata = matches!(name.as_str(), "name" | "namespace" | "labels");
        let holder = if of_metadata { &object["metadata"] } else { object };
        let empty = value.as_object().is_some_and(serde_json::Map::is_empty);
        if !(empty && holder.get(name).is_none()) {
            assert_eq!(holder.get(name), Some(value), "{}: {name}", fact["name"]);
        }
    }
    for name in object.as_object().expect("it is an object").keys() {
        let known = matches!(
            name.as_str(),
            "apiVersion" | "kind" | "metadata" | "status" | "data"
        );
        assert!(known || fact.get(name).is_some(), "{}: {name}", fact["name"]);
    }
}

#[test]
fn what_a_cluster_is_born_with_is_in_normal_form() {
    for object in all() {
        let (group, version) = object["apiVersion"]
            .as_str()
            .unwrap()
            .split_once('/')
            .unwrap_or(("", "v1"));
        let kind = builtin()
            .kind(group, version, object["kind"].as_str().unwrap())
            .unwrap();
        let read = kind.ty.json(&serde_json::to_vec(&object).unwrap()).unwrap();
        assert_eq!(read.value, object);
        assert!(read.strict_errors.is_empty());
    }
}
