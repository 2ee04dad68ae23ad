//! Records on the move: from the client, to a scale and back, between versions.

use serde_json::{Value, json};

use super::*;
use crate::{
    apply::typed::sample::{fields, map, number, text},
    type_schema::TypeSchema,
};

#[test]
fn drops_managed_fields_of_removed_versions() {
    let mut world = ApplyFixture::new();
    world.apply("m", json!({"data": {"a": "1"}}));
    let mut object = world.live().clone();
    object["metadata"]["managedFields"][0]["apiVersion"] = json!("apps/v1beta1");
    world.live = Some(object);
    world.change("u", "", |object| object["data"]["b"] = json!("1"));
    world.owned_by([("u", "Update", 2, json!({"f:data": {"f:b": {}}}))]);
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[test]
fn kubectl_takes_over_what_it_applied_from_the_client() {
    let mut world = ApplyFixture::new();
    let last =
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"data":{"a":"1","b":"2"}}"#;
    world.put(
        "kubectl-client-side-apply",
        json!({"metadata": {"annotations": {LAST_APPLIED: last}}, "data": {"a": "1", "b": "2"}}),
    );
    world.apply("kubectl", json!({"data": {"a": "<3"}}));
    let expected = "{\"apiVersion\":\"apps/v1\",\"data\":{\"a\":\"\\u003c3\"},\"kind\":\"Deployment\",\"metadata\":{\"name\":\"x\"}}\n";
    assert_eq!(world.live()["metadata"]["annotations"][LAST_APPLIED], expected);
    let annotations = json!({".": {}, "f:kubectl.kubernetes.io/last-applied-configuration": {}});
    world.owned_by([
        ("kubectl", "Apply", 2, json!({"f:data": {"f:a": {}}})),
        (
            "kubectl-client-side-apply",
            "Update",
            1,
            json!({"f:data": {".": {}, "f:b": {}}, "f:metadata": {"f:annotations": annotations}}),
        ),
    ]);
}

#[test]
fn kubectl_takes_nothing_that_was_changed_since() {
    let mut world = ApplyFixture::new();
    let last =
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"data":{"a":"1","b":"2"}}"#;
    world.put(
        "kubectl-client-side-apply",
        json!({"metadata": {"annotations": {LAST_APPLIED: last}}, "data": {"a": "1", "b": "2"}}),
    );
    world.change("editor", "", |object| object["data"]["b"] = json!("9"));
    let (message, _) = world.conflicts("kubectl", json!({"data": {"a": "3", "b": "3"}}));
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"editor\" using apps/v1: .data.b"
    );
}

#[test]
fn replicas_have_one_owner_on_both_sides_of_a_scale() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"spec": {"replicas": 1, "paused": true}}));
    let paths: ReplicasPaths<'_> = &[("apps/v1", &["spec", "replicas"])];
    let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"uid": "1"}, "spec": {"replicas": 1}});
    scale_to_subresource(world.live(), &mut scale, paths).unwrap();
    let shown = &scale["metadata"]["managedFields"][0];
    assert_eq!(
        (&shown["manager"], &shown["apiVersion"]),
        (&json!("m1"), &json!("autoscaling/v1"))
    );
    let typed = deployment();
    let subject = FieldManager {
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        typed: &typed,
        ..world.subject("")
    };
    let mut scaled = scale.clone();
    scaled["spec"]["replicas"] = json!(3);
    subject.track(Some(&scale), &mut scaled, "scaler", Time::from_unix(9, 0));
    let mut parent = world.live().clone();
    parent["spec"]["replicas"] = json!(3);
    scale_to_parent(&scaled, &mut parent, "apps/v1", paths).unwrap();
    world.live = Some(parent);
    world.owned_by([
        ("m1", "Apply", 1, json!({"f:spec": {"f:paused": {}}})),
        ("scaler/scale", "Update", 0, json!({"f:spec": {"f:replicas": {}}})),
    ]);
    assert_eq!(
        world.live()["metadata"]["managedFields"][1]["apiVersion"],
        "apps/v1"
    );
}

/// Another version, in which replicas have another name.
struct RenamedReplicasVersion(Sample);

impl VersionConverter for RenamedReplicasVersion {
    fn typed(&self, api_version: &str) -> Option<&dyn TypeSchema> {
        (api_version == "apps/v2").then_some(&self.0 as &dyn TypeSchema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConversionError> {
        let mut object = object.clone();
        let (old, new) = if api_version == "apps/v2" {
            ("replicas", "count")
        } else {
            ("count", "replicas")
        };
        object["apiVersion"] = json!(api_version);
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(value) = spec.remove(old)
        {
            spec.insert(new.to_owned(), value);
        }
        Ok(object)
    }

    fn reset(&self, _: &str) -> &ResetFields {
        &ResetFields::Nothing
    }
}

/// A world in which `m2` applied in the other version.
fn two_versions() -> (ApplyFixture, RenamedReplicasVersion) {
    let spec = fields([("count", number()), ("paused", Sample::Unknown)]);
    let other = fields([
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", Sample::Unknown),
        ("spec", spec),
        ("data", map(text())),
    ]);
    let mut world = ApplyFixture::new();
    world.apply("m2", json!({"spec": {"replicas": 1}, "data": {"a": "1"}}));
    let mut live = world.live().clone();
    let entry = &mut live["metadata"]["managedFields"][0];
    entry["apiVersion"] = json!("apps/v2");
    entry["fieldsV1"] = json!({"f:spec": {"f:count": {}}, "f:data": {"f:a": {}}});
    world.live = Some(live);
    (world, RenamedReplicasVersion(other))
}

#[test]
fn a_field_is_the_same_field_in_every_version() {
    let (world, versions) = two_versions();
    let subject = FieldManager {
        versions: &versions,
        ..world.subject("")
    };
    let configuration = ApplyFixture::configuration(json!({"spec": {"replicas": 2}}));
    let now = Time::from_unix(9, 0);
    let refused = subject
        .apply(
            Some(world.live()),
            &configuration,
            "m1",
            ApplyConflictPolicy::No,
            now,
        )
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"m2\": .spec.count"
    );
    let object = subject
        .apply(
            Some(world.live()),
            &configuration,
            "m1",
            ApplyConflictPolicy::Yes,
            now,
        )
        .unwrap();
    let record = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(record[0]["apiVersion"], "apps/v2");
    assert_eq!(record[0]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    assert_eq!(record[1]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn what_was_applied_in_another_version_is_removed_in_this_one() {
    let (world, versions) = two_versions();
    let subject = FieldManager {
        versions: &versions,
        ..world.subject("")
    };
    let configuration = ApplyFixture::configuration(json!({"data": {"a": "1"}}));
    let now = Time::from_unix(9, 0);
    let object = subject
        .apply(
            Some(world.live()),
            &configuration,
            "m2",
            ApplyConflictPolicy::No,
            now,
        )
        .unwrap();
    assert_eq!(object["apiVersion"], "apps/v1");
    assert_eq!(object["spec"].get("replicas"), None);
    assert_eq!(object["data"], json!({"a": "1"}));
    let record = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(record.len(), 1);
    assert_eq!(
        (&record[0]["apiVersion"], &record[0]["fieldsV1"]),
        (&json!("apps/v1"), &json!({"f:data": {"f:a": {}}}))
    );
}
