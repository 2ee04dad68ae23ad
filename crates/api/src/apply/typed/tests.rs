//! What apply does with objects, rule by rule.

use serde_json::{Value, json};

use super::{
    DuplicatePolicy, compare, extract_items, field_set, merge, reconcile, remove_items,
    sample::{Sample, deployment, keyed, map, text},
    validate, with_named_fields,
};
use crate::apply::FieldSet;

fn set(record: &Value) -> FieldSet<'_> {
    FieldSet::decode(record).unwrap()
}

fn pod(containers: &Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

#[track_caller]
fn merged(live: &Value, applied: &Value, expected: &Value) {
    assert_eq!(merge(live, applied, &deployment()).unwrap(), *expected);
}

#[test]
fn fields_are_leaves_items_and_what_is_one() {
    let object = json!({
        "metadata": {"labels": {"app": "a"}, "finalizers": ["x"], "annotations": {}},
        "spec": {
            "replicas": null,
            "selector": {"matchLabels": {"app": "a"}},
            "anything": {"list": [1, {"a": 1}], "deep": {"er": 1}},
            "template": {"spec": {
                "containers": [{"name": "c", "ports": [{"containerPort": 80}], "command": ["sh"]}],
                "nodeSelector": {"a": "b"},
                "tolerations": [],
            }},
            "topologyKeys": [],
        },
    });
    let expected = json!({
        "f:metadata": {
            "f:annotations": {}, "f:labels": {"f:app": {}}, "f:finalizers": {"v:\"x\"": {}},
        },
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:anything": {"f:list": {}, "f:deep": {".": {}, "f:er": {}}},
            "f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:command": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }},
                "f:nodeSelector": {}, "f:tolerations": {},
            }},
        },
    });
    assert_eq!(field_set(&object, &deployment()).encode(), expected);
}

#[test]
fn items_that_are_there_twice_are_one_field() {
    let object = pod(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}, {"name": "a"}]));
    let expected = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {}, "k:{\"name\":\"b\"}": {".": {}, "f:name": {}, "f:image": {}},
    }}}}});
    assert_eq!(field_set(&object, &deployment()).encode(), expected);
}

#[test]
fn reports_validation_errors_with_upstream_messages() {
    let wrong = |object: Value| {
        validate(&object, &deployment(), DuplicatePolicy::Refused)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong(json!({"spec": {"replicas": "3"}})),
        ".spec.replicas: expected numeric (int or float), got string"
    );
    assert_eq!(
        wrong(json!({"spec": {"bogus": 1}})),
        ".spec.bogus: field not declared in schema"
    );
    assert_eq!(
        wrong(pod(&json!([{"name": "c"}, {"name": "c"}]))),
        ".spec.template.spec.containers: duplicate entries for key [name=\"c\"]"
    );
    assert_eq!(
        wrong(pod(&json!([{"name": "c", "image": 1, "command": [true]}]))),
        "errors:\n  .spec.template.spec.containers[name=\"c\"].command[0]: expected string, got \
         &value.valueUnstructured{Value:true}\n  .spec.template.spec.containers[name=\"c\"].image: expected \
         string, got &value.valueUnstructured{Value:1}"
    );
    assert_eq!(
        wrong(json!({"metadata": "x"})),
        ".metadata: expected map, got &{x}"
    );
    assert_eq!(
        wrong(json!({"metadata": {"labels": [1, "a"]}})),
        ".metadata.labels: expected map, got &{[1 a]}"
    );
    assert_eq!(
        wrong(json!({"metadata": {"finalizers": {"a": 1}}})),
        ".metadata.finalizers: expected list, got &{map[a:1]}"
    );
    assert_eq!(
        wrong(json!({"metadata": {"finalizers": ["a", "a"]}})),
        ".metadata.finalizers: duplicate entries for key [=\"a\"]"
    );
    assert_eq!(
        wrong(json!({"spec": {"topologyKeys": [{}]}})),
        ".spec.topologyKeys: element 0: associative list with keys has an element that omits all key fields \
         [\"key\" \"when\"] (and doesn't have default values for any key fields)"
    );
    assert_eq!(
        wrong(pod(&json!([null]))),
        ".spec.template.spec.containers: element 0: associative list with keys may not have a null element"
    );
    assert_eq!(
        wrong(json!({"spec": {"paused": "x"}})),
        ".spec.paused: expected boolean, got &{x}"
    );
}

#[test]
fn nulls_and_default_keys_are_fine() {
    let object = json!({
        "metadata": null, "spec": {"replicas": null, "template": {"spec": {"containers": [{"image": "x"}]}}},
    });
    validate(&object, &deployment(), DuplicatePolicy::Refused).unwrap();
    let twice = pod(&json!([{"name": "c"}, {"name": "c"}]));
    validate(&twice, &deployment(), DuplicatePolicy::Allowed).unwrap();
}

#[test]
fn applying_adds_and_replaces_but_removes_nothing() {
    merged(
        &json!({"spec": {"replicas": 1, "selector": {"matchLabels": {"a": "1"}}}, "data": {"x": "1", "y": "1"}}),
        &json!({"spec": {"selector": {"matchLabels": {"b": "2"}}, "paused": true}, "data": {"y": "2"}}),
        &json!({
            "spec": {"replicas": 1, "paused": true, "selector": {"matchLabels": {"b": "2"}}},
            "data": {"x": "1", "y": "2"},
        }),
    );
}

#[test]
fn null_sets_a_scalar_but_leaves_what_is_in_maps_and_lists() {
    merged(
        &json!({"spec": {"replicas": 1}, "data": {"x": "1"}, "metadata": {"finalizers": ["a"], "labels": {}}}),
        &json!({"spec": {"replicas": null}, "data": null, "metadata": {"finalizers": null, "labels": null}}),
        &json!({"spec": {"replicas": null}, "data": {"x": "1"}, "metadata": {"finalizers": ["a"], "labels": null}}),
    );
}

#[test]
fn unknown_values_meet_by_what_they_are() {
    let unknown = |live: Value, applied: Value| merge(&live, &applied, &Sample::Unknown).unwrap();
    assert_eq!(
        unknown(json!({"a": {"b": 1}}), json!({"a": {"c": [1]}})),
        json!({"a": {"b": 1, "c": [1]}})
    );
    assert_eq!(
        unknown(json!({"a": [1, 2]}), json!({"a": [3]})),
        json!({"a": [3]})
    );
    assert_eq!(
        unknown(json!({"a": 1}), json!({"a": {"b": 1}})),
        json!({"a": {"b": 1}})
    );
    assert_eq!(unknown(json!({"a": {"b": 1}}), json!({"a": 1})), json!({"a": 1}));
}

#[test]
fn merge_keeps_item_order_unless_the_applied_list_reorders() {
    let order = |live: &[&str], applied: &[&str]| -> Vec<String> {
        let live = json!(live);
        let applied = json!(applied);
        let merged = merge(&live, &applied, &Sample::Set(Box::new(text()))).unwrap();
        serde_json::from_value(merged).unwrap()
    };
    assert_eq!(order(&["a", "b"], &["c"]), ["a", "b", "c"]);
    assert_eq!(order(&["a", "b", "c"], &["b"]), ["a", "b", "c"]);
    assert_eq!(order(&["a", "b", "c"], &["c", "a"]), ["b", "c", "a"]);
    assert_eq!(
        order(&["a", "b", "c", "d"], &["x", "c", "y", "b", "z"]),
        ["a", "x", "c", "d", "y", "b", "z"]
    );
    assert_eq!(order(&["a", "a", "b"], &["b"]), ["a", "a", "b"]);
    assert_eq!(order(&["a", "b", "a"], &["a"]), ["a", "b"]);
    assert_eq!(order(&[], &["a"]), ["a"]);
}

#[test]
fn items_with_one_key_are_merged() {
    merged(
        &pod(&json!([{"name": "a", "image": "1", "command": ["x"]}, {"name": "b"}])),
        &pod(&json!([{"name": "c"}, {"name": "a", "image": "2"}])),
        &pod(&json!([{"name": "c"}, {"name": "a", "image": "2", "command": ["x"]}, {"name": "b"}])),
    );
}

#[track_caller]
fn compared(old: &Value, new: &Value, typed: &Sample, removed: Value, modified: Value, added: Value) {
    let found = compare(old, new, typed).unwrap();
    assert_eq!(
        [
            found.removed.encode(),
            found.modified.encode(),
            found.added.encode()
        ],
        [removed, modified, added]
    );
}

#[test]
fn differences_are_removed_modified_or_added() {
    let old = json!({
        "data": {"a": "1", "b": "1"}, "spec": {"replicas": 1, "template": {"spec": {"nodeSelector": {"x": "1"}}}},
    });
    let new = json!({
        "data": {"b": "2", "c": "1"},
        "metadata": {"labels": {"l": "1"}},
        "spec": {"replicas": 1.0, "template": {"spec": {"nodeSelector": {"x": "2"}}}},
    });
    compared(
        &old,
        &new,
        &deployment(),
        json!({"f:data": {"f:a": {}}}),
        json!({"f:data": {"f:b": {}}, "f:spec": {"f:template": {"f:spec": {"f:nodeSelector": {}}}}}),
        json!({"f:data": {"f:c": {}}, "f:metadata": {".": {}, "f:labels": {".": {}, "f:l": {}}}}),
    );
}

#[test]
fn the_order_of_items_makes_no_difference() {
    let old = pod(&json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]));
    let new = pod(&json!([{"name": "b", "image": "1"}, {"name": "a", "image": "1"}]));
    assert!(compare(&old, &new, &deployment()).unwrap().is_same());
}

#[test]
fn distinguishes_null_and_empty() {
    let labels = map(text());
    compared(
        &json!({}),
        &json!(null),
        &map(labels),
        json!({}),
        json!({}),
        json!({}),
    );
    let typed = map(map(text()));
    compared(
        &json!({"a": {}}),
        &json!({}),
        &typed,
        json!({"f:a": {}}),
        json!({}),
        json!({}),
    );
    compared(
        &json!({"a": {}}),
        &json!({"a": null}),
        &typed,
        json!({}),
        json!({"f:a": {}}),
        json!({}),
    );
    compared(
        &json!({"a": {"b": "1"}}),
        &json!({"a": null}),
        &typed,
        json!({"f:a": {"f:b": {}}}),
        json!({}),
        json!({}),
    );
}

#[test]
fn adds_and_removes_duplicates_together() {
    let typed = keyed(map(text()), ["name"]);
    let one = json!([{"name": "a", "x": "1"}]);
    let two = json!([{"name": "a", "x": "1"}, {"name": "a", "x": "2"}]);
    let other = json!([{"name": "a", "x": "1"}, {"name": "a", "x": "3"}]);
    let whole = json!({"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:x": {}}});
    let marker = json!({"k:{\"name\":\"a\"}": {}});
    compared(&one, &two, &typed, whole.clone(), json!({}), marker.clone());
    compared(&two, &one, &typed, marker.clone(), json!({}), whole);
    compared(&two, &other, &typed, json!({}), marker.clone(), json!({}));
    compared(&two, &json!([]), &typed, marker, json!({}), json!({}));
    compared(&two, &two, &typed, json!({}), json!({}), json!({}));
}

#[test]
fn an_unknown_value_that_changes_its_kind_is_modified_with_its_parts() {
    let typed = Sample::Unknown;
    compared(
        &json!({"a": 1}),
        &json!({"a": {"b": 1}}),
        &typed,
        json!({}),
        json!({"f:a": {}}),
        json!({"f:a": {"f:b": {}}}),
    );
    compared(
        &json!({"a": {"b": 1}}),
        &json!({"a": [1]}),
        &typed,
        json!({"f:a": {"f:b": {}}}),
        json!({"f:a": {}}),
        json!({}),
    );
    compared(
        &json!({"a": null}),
        &json!({"a": 1}),
        &typed,
        json!({}),
        json!({"f:a": {}}),
        json!({}),
    );
}

#[test]
fn removing_the_last_item_leaves_null() {
    let object = json!({"data": {"a": "1"}, "metadata": {"finalizers": ["x", "y"]}, "spec": {"replicas": 1}});
    let fields = json!({
        "f:data": {"f:a": {}}, "f:metadata": {"f:finalizers": {"v:\"x\"": {}}}, "f:spec": {},
    });
    assert_eq!(
        remove_items(&object, &set(&fields), &deployment()),
        json!({"data": null, "metadata": {"finalizers": ["y"]}})
    );
}

#[test]
fn extracting_keeps_only_the_fields() {
    let object = json!({
        "data": {"a": "1", "b": "2"},
        "spec": {
            "replicas": 1, "paused": true,
            "template": {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}},
        },
    });
    let fields = json!({
        "f:data": {"f:b": {}},
        "f:spec": {
            "f:replicas": {},
            "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"b\"}": {"f:name": {}}}}},
        },
    });
    assert_eq!(
        extract_items(&object, &set(&fields), &deployment()),
        json!({
            "data": {"b": "2"},
            "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "b"}]}}},
        })
    );
}

#[test]
fn who_owned_a_part_of_what_became_one_owns_it_all() {
    let record = json!({
        "f:spec": {
            "f:selector": {"f:matchLabels": {"f:app": {}}},
            "f:replicas": {},
            "f:template": {"f:spec": {"f:tolerations": {"k:{\"key\":\"a\"}": {".": {}}}}},
        },
    });
    let mut fields = set(&record);
    assert!(reconcile(&mut fields, &deployment()));
    assert_eq!(
        fields.encode(),
        json!({"f:spec": {"f:selector": {}, "f:replicas": {}, "f:template": {"f:spec": {"f:tolerations": {}}}}})
    );
    assert!(!reconcile(&mut fields, &deployment()));
}

#[test]
fn structs_that_lead_to_a_field_are_named_but_maps_and_items_are_not() {
    let record = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}}},
        "f:unknown": {"f:a": {}},
    });
    assert_eq!(
        with_named_fields(&set(&record), &deployment()).encode(),
        json!({
            "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
            "f:spec": {".": {}, "f:template": {".": {}, "f:spec": {".": {}, "f:containers": {
                ".": {}, "k:{\"name\":\"c\"}": {"f:image": {}},
            }}}},
            "f:unknown": {"f:a": {}},
        })
    );
}
