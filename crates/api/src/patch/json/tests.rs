use proptest::prelude::*;
use serde_json::json;

use super::*;

fn apply(document: Value, patch: Value) -> Result<Value, Error> {
    Patch::try_new(patch)?.apply(document)
}

#[test]
fn each_operation_does_its_work() {
    for (document, patch, result) in [
        (
            json!({"a": 1}),
            json!([{"op": "add", "path": "/b", "value": 2}]),
            json!({"a": 1, "b": 2}),
        ),
        (
            json!({"a": 1}),
            json!([{"op": "add", "path": "/a", "value": 2}]),
            json!({"a": 2}),
        ),
        (
            json!({"l": [1, 3]}),
            json!([{"op": "add", "path": "/l/1", "value": 2}]),
            json!({"l": [1, 2, 3]}),
        ),
        (
            json!({"l": [1]}),
            json!([{"op": "add", "path": "/l/-", "value": 2}]),
            json!({"l": [1, 2]}),
        ),
        (
            json!({"l": [1]}),
            json!([{"op": "add", "path": "/l/1", "value": 2}]),
            json!({"l": [1, 2]}),
        ),
        (
            json!({"l": [1]}),
            json!([{"op": "add", "path": "/l/-1", "value": 2}]),
            json!({"l": [1, 2]}),
        ),
        (
            json!({"a": 1}),
            json!([{"op": "add", "path": "/b"}]),
            json!({"a": 1, "b": null}),
        ),
        (
            json!({"a": 1, "b": 2}),
            json!([{"op": "remove", "path": "/a"}]),
            json!({"b": 2}),
        ),
        (
            json!({"l": [1, 2]}),
            json!([{"op": "remove", "path": "/l/-1"}]),
            json!({"l": [1]}),
        ),
        (
            json!({"a": {"b": 1}}),
            json!([{"op": "replace", "path": "/a/b", "value": 2}]),
            json!({"a": {"b": 2}}),
        ),
        (
            json!({}),
            json!([{"op": "replace", "path": "/a", "value": 2}]),
            json!({"a": 2}),
        ),
        (
            json!({"a": 1}),
            json!([{"op": "replace", "path": "", "value": {"b": 2}}]),
            json!({"b": 2}),
        ),
        (
            json!({"a": 1}),
            json!([{"op": "move", "from": "/a", "path": "/b"}]),
            json!({"b": 1}),
        ),
        (
            json!({"a": [1]}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!({"a": [1], "b": [1]}),
        ),
        (
            json!({}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!({"b": null}),
        ),
        (
            json!({"a/b~": 1}),
            json!([{"op": "replace", "path": "/a~1b~0", "value": 2}]),
            json!({"a/b~": 2}),
        ),
        (
            json!({"~1": 1}),
            json!([{"op": "remove", "path": "/~01"}]),
            json!({}),
        ),
        (json!({"": 1}), json!([{"op": "remove", "path": "/"}]), json!({})),
        (json!({"a": 1}), json!(null), json!({"a": 1})),
    ] {
        assert_eq!(apply(document, patch.clone()).unwrap(), result, "{patch}");
    }
}

#[test]
fn a_test_compares_and_missing_is_null() {
    let document = json!({"a": {"b": [1, {"c": null}]}, "n": null});
    for (path, value, passes) in [
        ("/a/b/0", json!(1), true),
        ("/a/b/0", json!(1.0), false),
        ("/a/b", json!([1, {"c": null}]), true),
        ("/a/b/1", json!({}), false),
        ("/missing", json!(null), true),
        ("/n", json!(null), true),
        ("/a", json!(null), false),
        ("/missing", json!(1), false),
        ("/a/b/7", json!(null), false),
        ("/missing/x", json!(null), false),
        ("", document.clone(), true),
    ] {
        let outcome = apply(
            document.clone(),
            json!([{"op": "test", "path": path, "value": value}]),
        );
        assert_eq!(outcome.is_ok(), passes, "{path} {value}");
    }
    assert!(apply(document.clone(), json!([{"op": "test", "path": "/missing"}])).is_ok());
}

#[test]
fn what_does_not_apply_is_refused_without_a_word() {
    for patch in [
        json!([{"op": "frobnicate", "path": "/a"}]),
        json!([{"path": "/a"}]),
        json!([null]),
        json!([{"op": "add", "value": 1}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "nowhere", "value": 1}]),
        json!([{"op": "add", "path": "/x/y", "value": 1}]),
        json!([{"op": "add", "path": "/a/y", "value": 1}]),
        json!([{"op": "add", "path": "/l/3", "value": 1}]),
        json!([{"op": "add", "path": "/l/-4", "value": 1}]),
        json!([{"op": "add", "path": "/l/x", "value": 1}]),
        json!([{"op": "remove", "path": "/x"}]),
        json!([{"op": "remove", "path": "/l/2"}]),
        json!([{"op": "remove", "path": "/l/-"}]),
        json!([{"op": "replace", "path": "/l/2", "value": 1}]),
        json!([{"op": "replace", "path": "", "value": 1}]),
        json!([{"op": "move", "from": "/x", "path": "/y"}]),
        json!([{"op": "move", "path": "/y"}]),
        json!([{"op": "copy", "from": "/x/y", "path": "/y"}]),
        json!([{"op": "test", "path": "/a", "value": 2}]),
    ] {
        let error = apply(json!({"a": 1, "l": [1, 2]}), patch.clone()).unwrap_err();
        let status = error.status();
        assert_eq!(status.code, 422, "{patch}");
        assert_eq!(
            status.message,
            "the server rejected our request due to an error in our request"
        );
    }
}

#[test]
fn what_is_no_patch_is_a_bad_request() {
    for (patch, message) in [
        (
            json!({}),
            "error decoding patch: json: cannot unmarshal object into Go value of type []interface {}",
        ),
        (
            json!(["x"]),
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
        ),
    ] {
        let status = Patch::try_new(patch).unwrap_err().status();
        assert_eq!((status.code, status.message.as_str()), (400, message));
    }
}

#[test]
fn operations_are_counted() {
    let operations = |count| Value::Array(vec![json!({"op": "test", "path": "/a", "value": 1}); count]);
    assert!(apply(json!({"a": 1}), operations(10_000)).is_ok());
    let status = Patch::try_new(operations(10_001)).unwrap_err().status();
    assert_eq!(status.code, 413);
    assert_eq!(
        status.message,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
}

#[test]
fn copies_cannot_make_a_document_explode() {
    let mut patch = Vec::new();
    for i in 0..100 {
        patch.push(json!({"op": "copy", "from": "/a", "path": format!("/b{i}")}));
        patch.push(json!({"op": "move", "from": format!("/b{i}"), "path": "/a/-"}));
    }
    let error = apply(json!({"a": ["x"]}), Value::Array(patch)).unwrap_err();
    assert!(matches!(error, Error::CopiesTooMuch(bytes) if bytes > MOST_COPIED_BYTES));
    assert_eq!(error.status().code, 422);
}

proptest! {
    #[test]
    fn what_is_added_is_found_and_can_be_removed(key in "[a-z~/ ]{0,6}", value in any::<i32>()) {
        let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        let patch = json!([
            {"op": "add", "path": path, "value": value},
            {"op": "test", "path": path, "value": value},
            {"op": "remove", "path": path},
        ]);
        prop_assert_eq!(apply(json!({}), patch).unwrap(), json!({}));
    }

    #[test]
    fn no_patch_makes_it_panic(
        operations in prop::collection::vec(
            ("(add|remove|replace|move|copy|test|x)", "[/a0~-]{0,6}", "[/a0~-]{0,6}", 0..3_i32), 0..8),
    ) {
        let patch: Vec<_> = operations
            .into_iter()
            .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": [value]}))
            .collect();
        let _ = apply(json!({"a": {"a": [0, [1]]}, "0": []}), Value::Array(patch));
    }
}
