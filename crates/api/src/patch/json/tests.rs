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
    assert!(matches!(error, Error::CopiesTooMuch(bytes) if bytes > MAX_COPIED_BYTES));
    assert_eq!(error.status().code, 422);
}

/// Objects within objects, and a number in the innermost.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| {
        Value::Object([("n".to_owned(), value)].into_iter().collect())
    })
}

fn is_too_deep(outcome: &Result<Value, Error>) -> bool {
    matches!(outcome, Err(error @ Error::Operation(message))
        if message == "exceeded max depth" && error.status().code == 422)
}

#[test]
fn adding_and_replacing_nest_as_deep_as_bodies_and_no_deeper() {
    for op in ["add", "replace"] {
        let patch = |levels| json!([{"op": op, "path": "/a/b", "value": nested(levels)}]);
        let outcome = apply(json!({"a": {}}), patch(398)).unwrap();
        assert_eq!(outcome, json!({"a": {"b": nested(398)}}));
        assert!(is_too_deep(&apply(json!({"a": {}}), patch(399))), "{op}");
    }
    let patch = |levels| json!([{"op": "replace", "path": "", "value": nested(levels)}]);
    assert_eq!(apply(json!({}), patch(400)).unwrap(), nested(400));
    assert!(is_too_deep(&apply(json!({}), patch(401))));
}

#[test]
fn moving_nests_as_deep_as_bodies_and_no_deeper() {
    let inner = "/n".repeat(100);
    let mut operations = Vec::new();
    for round in 1..=100 {
        operations.push(json!({"op": "add", "path": "/n", "value": nested(99)}));
        operations.push(json!({"op": "replace", "path": inner, "value": {}}));
        operations.push(json!({"op": "move", "from": "/d", "path": format!("{inner}/d")}));
        operations.push(json!({"op": "move", "from": "/n", "path": "/d"}));
        let outcome = apply(json!({"d": 1}), Value::Array(operations.clone()));
        if round > 3 {
            assert!(is_too_deep(&outcome), "{round}");
        } else {
            assert!(outcome.is_ok(), "{round}");
        }
    }
    // One level with each move.
    let rounds = |count: usize| {
        let steps = (0..count).flat_map(|_| {
            [
                json!({"op": "add", "path": "/n", "value": []}),
                json!({"op": "move", "from": "/d", "path": "/n/0"}),
                json!({"op": "move", "from": "/n", "path": "/d"}),
            ]
        });
        steps.collect::<Value>()
    };
    assert!(apply(json!({"d": 1}), rounds(398)).is_ok());
    for count in [400, 500, 3000] {
        assert!(is_too_deep(&apply(json!({"d": 1}), rounds(count))), "{count}");
    }
}

#[test]
fn copying_nests_as_deep_as_bodies_and_no_deeper() {
    // Each copy within itself doubles the depth.
    let mut path = String::from("/n");
    let mut operations = Vec::new();
    for round in 1..=12 {
        operations.push(json!({"op": "copy", "from": "/n", "path": format!("{path}/n")}));
        path = path.repeat(2);
        let outcome = apply(json!({"n": {}}), Value::Array(operations.clone()));
        assert_eq!(is_too_deep(&outcome), round > 8, "{round}");
    }
}

#[test]
fn what_moves_back_and_forth_never_becomes_too_deep() {
    let steps = (0..2000).flat_map(|_| {
        [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
            json!({"op": "move", "from": "/b", "path": "/a/b"}),
            json!({"op": "move", "from": "/a/b", "path": "/b"}),
        ]
    });
    let document = json!({"a": {"x": [1, {"y": 2}]}, "b": {"z": [[]]}});
    assert_eq!(apply(document.clone(), steps.collect()).unwrap(), document);
}

#[test]
fn copies_and_originals_change_independently() {
    let patch = json!([
        {"op": "add", "path": "/a/l/1", "value": {"x": []}},
        {"op": "add", "path": "/a/l/1/x/-", "value": 7},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/l/1/x/-", "value": 8},
        {"op": "remove", "path": "/b/l/0"},
        {"op": "add", "path": "/c", "value": {}},
        {"op": "add", "path": "/c/d", "value": []},
        {"op": "add", "path": "/c/d/0", "value": 1},
        {"op": "remove", "path": "/c/d/0"},
    ]);
    let expected = json!({
        "a": {"l": [0, {"x": [7, 8]}, 2], "m": {}},
        "b": {"l": [{"x": [7]}, 2], "m": {}},
        "c": {"d": []},
    });
    assert_eq!(
        apply(json!({"a": {"l": [0, 2], "m": {}}}), patch).unwrap(),
        expected
    );
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
