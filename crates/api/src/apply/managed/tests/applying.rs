//! What an apply makes of an object and of its record.

use serde_json::{Value, json};

use super::*;

#[test]
fn applying_creates_with_the_applied_fields_as_record() {
    let mut world = ApplyFixture::new();
    world.apply(
        "m1",
        json!({"data": {"a": "1"}, "spec": {"replicas": 3}, "status": {"replicas": 1}}),
    );
    world.owned_by([(
        "m1",
        "Apply",
        1,
        json!({"f:data": {"f:a": {}}, "f:spec": {"f:replicas": {}}}),
    )]);
    assert_eq!(world.live()["spec"], json!({"replicas": 3}));
}

#[test]
fn applying_the_same_again_changes_nothing_not_even_the_time() {
    let mut world = ApplyFixture::new();
    let first = world.apply("m1", json!({"data": {"a": "1"}})).clone();
    assert_eq!(*world.apply("m1", json!({"data": {"a": "1"}})), first);
}

#[test]
fn what_an_applier_leaves_out_is_removed() {
    let mut world = ApplyFixture::new();
    world.apply(
        "m1",
        json!({"data": {"a": "1", "b": "2"}, "spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "a", "image": "1"}, {"name": "b", "image": "1"},
        ]}}}}),
    );
    world.apply(
        "m1",
        json!({"data": {"b": "2"}, "spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}}),
    );
    assert_eq!(world.live()["data"], json!({"b": "2"}));
    assert_eq!(
        world.live()["spec"],
        json!({"template": {"spec": {"containers": [{"name": "b"}]}}})
    );
    world.apply("m1", json!({}));
    assert_eq!(world.live().get("data"), None);
    assert_eq!(world.live().get("spec"), None);
    assert!(world.owners().is_empty());
}

#[test]
fn what_two_appliers_share_stays_until_both_leave_it_out() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"data": {"a": "1"}}));
    world.apply("m2", json!({"data": {"a": "1", "b": "2"}}));
    world.apply("m1", json!({}));
    assert_eq!(world.live()["data"], json!({"a": "1", "b": "2"}));
    world.owned_by([("m2", "Apply", 2, json!({"f:data": {"f:a": {}, "f:b": {}}}))]);
    world.apply("m2", json!({"data": {"b": "2"}}));
    assert_eq!(world.live()["data"], json!({"b": "2"}));
}

#[test]
fn what_an_updater_owns_too_is_not_removed() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"spec": {"replicas": 1, "paused": true}}));
    world.change("u", "", |object| object["spec"]["replicas"] = json!(2));
    world.owned_by([
        ("m1", "Apply", 1, json!({"f:spec": {"f:paused": {}}})),
        ("u", "Update", 2, json!({"f:spec": {"f:replicas": {}}})),
    ]);
    world.apply("m1", json!({"spec": {"paused": true}}));
    assert_eq!(world.live()["spec"], json!({"replicas": 2, "paused": true}));
}

#[test]
fn fields_that_others_put_into_a_removed_item_go_with_it_unless_owned() {
    let mut world = ApplyFixture::new();
    let one = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "1"}]}}}});
    world.apply("m1", one);
    // A default: in the object, but without an owner.
    let mut object = world.live().clone();
    object["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["sh"]);
    world.live = Some(object);
    world.apply("m1", json!({"spec": {"paused": true}}));
    assert_eq!(world.live()["spec"], json!({"paused": true}));
}

#[test]
fn removes_a_struct_with_unowned_fields_when_its_last_owner_leaves() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"spec": {"replicas": 1}}));
    // A default: in the object, but without an owner.
    let mut object = world.live().clone();
    object["spec"]["paused"] = json!(false);
    world.live = Some(object);
    world.apply("m1", json!({}));
    assert_eq!(world.live().get("spec"), None);
}

#[test]
fn keeps_unowned_fields_of_a_struct_that_has_an_owned_field() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"spec": {"replicas": 1}}));
    world.apply("m2", json!({"spec": {"anything": 1}}));
    let mut object = world.live().clone();
    object["spec"]["paused"] = json!(false);
    world.live = Some(object);
    world.apply("m1", json!({}));
    assert_eq!(world.live()["spec"], json!({"anything": 1, "paused": false}));
}

#[test]
fn reports_one_conflict_in_one_line() {
    let mut world = ApplyFixture::new();
    world.put("kubectl", json!({"spec": {"replicas": 1}}));
    let (message, causes) = world.conflicts("m1", json!({"spec": {"replicas": 2}}));
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas"
    );
    assert_eq!(
        causes,
        [ConflictCause {
            message: "conflict with \"kubectl\" using apps/v1".to_owned(),
            field: ".spec.replicas".to_owned()
        }]
    );
}

#[test]
fn reports_many_conflicts_by_manager() {
    let mut world = ApplyFixture::new();
    let container =
        |image: &str| json!([{"name": "c", "image": image, "ports": [{"containerPort": 80, "name": image}]}]);
    world.apply(
        "z",
        json!({"spec": {"template": {"spec": {"containers": container("1")}}}}),
    );
    world.change("scaler", "scale", |object| object["spec"]["replicas"] = json!(1));
    world.change("a", "", |object| object["data"] = json!({"x": "1", "y": "1"}));
    let (message, causes) = world.conflicts(
        "m1",
        json!({"data": {"x": "2", "y": "2"}, "spec": {"replicas": 2, "template": {"spec": {"containers": container("2")}}}}),
    );
    assert_eq!(
        message,
        "Apply failed with 5 conflicts: conflicts with \"a\" using apps/v1:\n- .data.x\n- .data.y\n\
         conflicts with \"scaler\" with subresource \"scale\" using apps/v1:\n- .spec.replicas\n\
         conflicts with \"z\":\n- .spec.template.spec.containers[name=\"c\"].image\n\
         - .spec.template.spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].name"
    );
    assert_eq!(causes.len(), 5);
    assert_eq!(
        causes[2].message,
        "conflict with \"scaler\" with subresource \"scale\" using apps/v1"
    );
}

#[test]
fn force_takes_what_others_own() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"data": {"a": "1", "b": "1"}}));
    world
        .try_apply("m2", ApplyConflictPolicy::Yes, json!({"data": {"a": "2"}}))
        .unwrap();
    world.owned_by([
        ("m1", "Apply", 1, json!({"f:data": {"f:b": {}}})),
        ("m2", "Apply", 2, json!({"f:data": {"f:a": {}}})),
    ]);
}

#[test]
fn a_configuration_of_another_type_is_refused() {
    let world = ApplyFixture::new();
    let refused = |configuration: Value| {
        let now = Time::from_unix(1, 0);
        let error = world
            .subject("")
            .apply(None, &configuration, "m", ApplyConflictPolicy::No, now)
            .unwrap_err();
        (error.code(), error.to_string())
    };
    let object = |fields: Value| ApplyFixture::configuration(fields);
    assert_eq!(
        refused(json!({"apiVersion": "v1", "kind": "Secret"})),
        (400, "invalid object type: /v1, Kind=Secret".to_owned())
    );
    assert_eq!(
        refused(object(json!({"metadata": {"managedFields": [{}]}}))),
        (400, "metadata.managedFields must be nil".to_owned())
    );
    assert_eq!(
        refused(object(json!({"spec": {"bogus": 1}}))),
        (
            500,
            "failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.bogus: field not \
             declared in schema"
                .to_owned()
        )
    );
}
