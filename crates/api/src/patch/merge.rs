//! JSON merge patch (RFC 7386): named fields are set, null removes a field.

// upstream: vendor/gopkg.in/evanphx/json-patch.v4/merge.go MergePatch, doMergePatch, pruneNulls

use serde_json::{Map, Value};

use super::{bad_patch, json_kind, without_nulls};
use crate::status::Status;

/// The document with the patch merged in.
pub fn apply(document: Value, patch: Value) -> Result<Value, Status> {
    match (document, patch) {
        (_, Value::Null) => Err(bad_patch()),
        (Value::Object(mut document), Value::Object(patch)) => {
            merge(&mut document, patch);
            Ok(Value::Object(document))
        }
        (_, patch @ Value::Object(_)) => Ok(without_nulls(patch)),
        (_, patch) => Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(&patch)
        ))),
    }
}

fn merge(document: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (document.get_mut(&key), value) {
            (_, Value::Null) => {
                document.remove(&key);
            }
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value),
            // A list instead of an object is taken as it is.
            (Some(current @ Value::Object(_)), value) => *current = value,
            (_, value) => {
                document.insert(key, without_nulls(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_standard_hold() {
        for (document, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            assert_eq!(apply(document, patch).unwrap(), result);
        }
    }

    #[test]
    fn nulls_in_new_lists_stay_and_in_new_objects_go() {
        assert_eq!(
            apply(json!({}), json!({"l": [null, {"a": null, "b": 1}]})).unwrap(),
            json!({"l": [null, {"b": 1}]})
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert_eq!(
            apply(json!({}), json!(null)).unwrap_err().message,
            "invalid JSON patch"
        );
        let status = apply(json!({}), json!([1])).unwrap_err();
        assert_eq!(status.code, 400);
        assert_eq!(
            status.message,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
        assert_eq!(
            super::super::read(b"{nope").unwrap_err().message,
            "invalid JSON patch"
        );
        assert_eq!(super::super::read(b"").unwrap_err().code, 400);
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(Value::Null)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::btree_map("[a-c]", inner.clone(), 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
                prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", tree(), 0..4)
            .prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_same_patch_twice_changes_nothing_more(document in object(), patch in object()) {
            // But for nulls inside lists, which may stay the first time.
            let once = apply(document, patch.clone()).unwrap();
            prop_assert_eq!(without_nulls(apply(once.clone(), patch).unwrap()), without_nulls(once));
        }

        #[test]
        fn every_field_of_the_patch_is_in_the_result(document in object(), patch in object()) {
            let result = apply(document, patch.clone()).unwrap();
            for (key, value) in patch.as_object().unwrap() {
                prop_assert_eq!(result.get(key).is_none(), value.is_null());
            }
        }
    }
}
