//! What other writes make of a record.

use serde_json::json;

use super::*;

#[test]
fn creating_records_all_that_a_blank_object_has_not() {
    let mut world = ApplyFixture::new();
    world.put("m1", json!({"data": {"a": "1"}, "spec": {"replicas": 3, "template": {"spec": {}}}, "status": {"replicas": 1}}));
    world.owned_by([(
        "m1",
        "Update",
        1,
        json!({
            "f:data": {".": {}, "f:a": {}},
            "f:spec": {"f:replicas": {}, "f:template": {".": {}, "f:spec": {}}},
        }),
    )]);
}

#[test]
fn update_owns_changed_fields_and_disowns_removed_fields() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"data": {"a": "1", "b": "1", "c": "1"}}));
    world.put("u", json!({"data": {"a": "2", "c": "1"}}));
    world.owned_by([
        ("m1", "Apply", 1, json!({"f:data": {"f:c": {}}})),
        ("u", "Update", 2, json!({"f:data": {"f:a": {}}})),
    ]);
    world.put("u", json!({"data": {"a": "2", "c": "1", "d": "1"}}));
    world.owned_by([
        ("m1", "Apply", 1, json!({"f:data": {"f:c": {}}})),
        ("u", "Update", 3, json!({"f:data": {"f:a": {}, "f:d": {}}})),
    ]);
}

#[test]
fn an_update_that_changes_nothing_leaves_the_object_as_it_was() {
    let mut world = ApplyFixture::new();
    world.apply("m1", json!({"data": {"a": "1"}}));
    let before = world.live().clone();
    assert_eq!(*world.change("u", "", |_| ()), before);
    assert_eq!(
        *world.change("u", "", |object| drop(
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields")
        )),
        before
    );
}

#[test]
fn a_subresource_has_entries_of_its_own() {
    let mut world = ApplyFixture::new();
    world.reset = ResetFields::Nothing;
    world.put("m", json!({"data": {"a": "1"}}));
    world.change("m", "status", |object| object["status"] = json!({"replicas": 1}));
    let status = json!({"f:status": {".": {}, "f:replicas": {}}});
    world.owned_by([
        ("m", "Update", 1, json!({"f:data": {".": {}, "f:a": {}}})),
        ("m/status", "Update", 2, status),
    ]);
}

#[test]
fn a_request_cannot_change_the_record_by_a_subresource() {
    let mut world = ApplyFixture::new();
    world.put("m", json!({"data": {"a": "1"}}));
    let before = world.live().clone();
    assert_eq!(
        *world.change("m", "status", |object| object["metadata"]["managedFields"] =
            json!([])),
        before
    );
}

#[test]
fn an_empty_record_in_a_request_means_forget_it() {
    for list in [json!([]), json!([{}]), json!([{"manager": null}])] {
        let mut world = ApplyFixture::new();
        world.put("m", json!({"data": {"a": "1"}}));
        world.change("m", "", |object| object["metadata"]["managedFields"] = list);
        assert!(world.owners().is_empty());
        // Without a record, updates leave none; the first apply records what was there before.
        world.change("m", "", |object| object["data"]["b"] = json!("1"));
        assert!(world.owners().is_empty());
        world.apply("m1", json!({"data": {"c": "1"}}));
        let before = json!({"f:data": {".": {}, "f:a": {}, "f:b": {}}});
        world.owned_by([
            ("m1", "Apply", 4, json!({"f:data": {"f:c": {}}})),
            ("before-first-apply", "Update", 4, before),
        ]);
    }
}

#[test]
fn a_broken_record_in_a_request_is_passed_over() {
    for list in [
        json!(null),
        json!([{"manager": "x"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV2"}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"a": {}}}]),
    ] {
        let mut world = ApplyFixture::new();
        world.put("m", json!({"data": {"a": "1"}}));
        let before = world.live().clone();
        assert_eq!(
            *world.change("m", "", |object| object["metadata"]["managedFields"] = list),
            before
        );
    }
}

#[test]
fn a_request_may_bring_a_record_of_its_own() {
    let mut world = ApplyFixture::new();
    world.put("m", json!({"data": {"a": "1"}}));
    world.change("m", "", |object| {
        object["metadata"]["managedFields"] = json!([{
            "manager": "other", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "time": "1970-01-01T01:00:07+01:00", "fieldsV1": {"f:data": {"f:a": {}}},
        }]);
    });
    world.owned_by([("other", "Apply", 7, json!({"f:data": {"f:a": {}}}))]);
}

#[test]
fn the_oldest_updaters_become_one() {
    let mut world = ApplyFixture::new();
    world.apply("applier", json!({"spec": {"replicas": 1}}));
    for index in 0..12 {
        let name = format!("u{index:02}");
        world.change(&name, "", |object| {
            object["metadata"]["labels"][&name] = json!("1");
        });
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 11);
    let first = json!({"f:metadata": {"f:labels": {".": {}, "f:u00": {}, "f:u01": {}, "f:u02": {}}}});
    assert_eq!(
        owners[1],
        ("ancient-changes".to_owned(), "Update".to_owned(), 4, first)
    );
    assert_eq!(owners[10].0, "u11");
}
