use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::type_schema::{ListKind, Struct};

/// A small type: the names of fields and what they are.
#[derive(Default)]
struct TestType {
    fields: BTreeMap<&'static str, (Kind, Patch<'static>)>,
}

enum Kind {
    Scalar,
    Struct(TestType),
    Map(Box<Kind>),
    List(Box<Kind>),
}

impl TypeSchema for Kind {
    fn shape(&self) -> Shape<'_> {
        match self {
            Kind::Scalar => Shape::Scalar,
            Kind::Struct(fields) => Shape::Struct(fields),
            Kind::Map(values) => Shape::Map {
                values: &**values,
                atomic: false,
            },
            Kind::List(items) => Shape::List {
                items: &**items,
                kind: ListKind::Atomic,
            },
        }
    }
}

impl Struct for TestType {
    fn name(&self) -> &'static str {
        "Fields"
    }

    fn field(&self, name: &str) -> Option<&dyn TypeSchema> {
        self.fields.get(name).map(|(kind, _)| kind as &dyn TypeSchema)
    }

    fn default_of(&self, _: &str) -> Option<&Value> {
        None
    }

    fn patch(&self, name: &str) -> Patch<'_> {
        self.fields.get(name).map(|(_, plan)| *plan).unwrap_or_default()
    }

    fn is_atomic(&self) -> bool {
        false
    }

    fn keeps_unknown(&self) -> bool {
        false
    }
}

const PLAIN: Patch<'static> = Patch {
    merge: false,
    replace: false,
    retain_keys: false,
    merge_key: None,
};
const SET: Patch<'static> = Patch { merge: true, ..PLAIN };
const KEYED: Patch<'static> = Patch {
    merge: true,
    merge_key: Some("name"),
    ..PLAIN
};

fn fields(list: impl IntoIterator<Item = (&'static str, Kind, Patch<'static>)>) -> Kind {
    Kind::Struct(TestType {
        fields: list
            .into_iter()
            .map(|(name, kind, plan)| (name, (kind, plan)))
            .collect(),
    })
}

fn typed() -> Kind {
    let list = |kind| Kind::List(Box::new(kind));
    let port = || fields([("port", Kind::Scalar, PLAIN), ("protocol", Kind::Scalar, PLAIN)]);
    let item = fields([
        ("name", Kind::Scalar, PLAIN),
        ("image", Kind::Scalar, PLAIN),
        (
            "ports",
            list(port()),
            Patch {
                merge_key: Some("port"),
                ..KEYED
            },
        ),
        ("env", list(fields([("name", Kind::Scalar, PLAIN)])), KEYED),
        (
            "source",
            fields([("a", Kind::Scalar, PLAIN), ("b", Kind::Scalar, PLAIN)]),
            PLAIN,
        ),
    ]);
    fields([
        ("labels", Kind::Map(Box::new(Kind::Scalar)), PLAIN),
        (
            "deep",
            Kind::Map(Box::new(Kind::Map(Box::new(Kind::Scalar)))),
            PLAIN,
        ),
        ("finalizers", list(Kind::Scalar), SET),
        ("args", list(Kind::Scalar), PLAIN),
        ("items", list(item), KEYED),
        ("unplanned", list(port()), SET),
        ("grid", list(list(Kind::Scalar)), SET),
        (
            "strategy",
            fields([("type", Kind::Scalar, PLAIN), ("rolling", Kind::Scalar, PLAIN)]),
            PLAIN,
        ),
    ])
}

fn patched(object: Value, patch: Value) -> Value {
    apply(object, patch, &typed()).unwrap()
}

fn refused(object: &Value, patch: Value) -> Error {
    apply(object.clone(), patch, &typed()).unwrap_err()
}

#[test]
fn objects_are_merged_by_field() {
    assert_eq!(
        patched(
            json!({"labels": {"a": "1", "b": "2"}, "kind": "K"}),
            json!({"labels": {"a": null, "c": "3"}})
        ),
        json!({"labels": {"b": "2", "c": "3"}, "kind": "K"})
    );
    assert_eq!(patched(json!({"kind": "K"}), Value::Null), json!({"kind": "K"}));
}

#[test]
fn directives_replace_and_delete_objects() {
    let object = json!({"labels": {"a": "1"}});
    assert_eq!(
        patched(object.clone(), json!({"labels": {"$patch": "replace", "b": "2"}})),
        json!({"labels": {"b": "2"}})
    );
    assert_eq!(
        patched(object.clone(), json!({"labels": {"$patch": "delete"}})),
        json!({"labels": {}})
    );
    assert_eq!(
        patched(json!({}), json!({"labels": {"$patch": "delete"}})),
        json!({})
    );
    assert_eq!(
        patched(object.clone(), json!({"$patch": "replace", "x": 1})),
        json!({"x": 1})
    );
    let error = refused(&object, json!({"labels": {"$patch": "bogus", "b": "2"}}));
    assert_eq!(
        error.to_string(),
        "unknown patch type: bogus in map: map[$patch:bogus b:2]"
    );
    assert_eq!((error.status().code, error.status().reason.word()), (500, ""));
}

#[test]
fn lists_without_a_plan_are_replaced() {
    assert_eq!(
        patched(json!({"args": ["a", "b"]}), json!({"args": ["c"]})),
        json!({"args": ["c"]})
    );
}

#[test]
fn scalars_are_merged_as_sets() {
    let object = json!({"finalizers": ["a", "b"]});
    assert_eq!(
        patched(object.clone(), json!({"finalizers": ["c"]})),
        json!({"finalizers": ["c", "a", "b"]})
    );
    assert_eq!(
        patched(object.clone(), json!({"finalizers": ["b", "c"]})),
        json!({"finalizers": ["a", "b", "c"]})
    );
    assert_eq!(patched(object.clone(), json!({"finalizers": []})), object);
    assert_eq!(
        patched(
            object.clone(),
            json!({"$deleteFromPrimitiveList/finalizers": ["a", "x"]})
        ),
        json!({"finalizers": ["b"]})
    );
    assert_eq!(
        patched(
            object.clone(),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]})
        ),
        json!({"finalizers": ["c", "b"]})
    );
    assert_eq!(
        patched(
            object.clone(),
            json!({"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]})
        ),
        json!({"finalizers": ["c", "b", "a"]})
    );
    let error = refused(&object, json!({"$deleteFromPrimitiveList": ["a"]}));
    assert_eq!(
        (error.status().code, error.to_string().as_str()),
        (400, "invalid patch format of primitive list")
    );
}

#[test]
fn items_are_merged_by_their_key() {
    let object = json!({"items": [
        {"name": "a", "image": "1", "ports": [{"port": 80, "protocol": "TCP"}]},
        {"name": "b", "image": "2"},
    ]});
    assert_eq!(
        patched(object.clone(), json!({"items": [{"name": "b", "image": "3"}]})),
        json!({"items": [
            {"name": "a", "image": "1", "ports": [{"port": 80, "protocol": "TCP"}]},
            {"name": "b", "image": "3"},
        ]})
    );
    assert_eq!(
        patched(
            object.clone(),
            json!({"items": [{"name": "a", "ports": [{"port": 80, "protocol": "UDP"}, {"port": 443}]}]})
        )["items"][0]["ports"],
        json!([{"port": 80, "protocol": "UDP"}, {"port": 443}])
    );
    // New items are first; those that stay keep their position among the ones the patch names.
    let names = |value: Value| -> Vec<String> {
        value["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        names(patched(object.clone(), json!({"items": [{"name": "n"}]}))),
        ["n", "a", "b"]
    );
    assert_eq!(
        names(patched(
            object.clone(),
            json!({"items": [{"name": "n"}, {"name": "b"}]})
        )),
        ["n", "a", "b"]
    );
    assert_eq!(
        names(patched(
            object.clone(),
            json!({"items": [{"name": "a", "$patch": "delete"}]})
        )),
        ["b"]
    );
    assert_eq!(
        names(patched(
            object.clone(),
            json!({"items": [{"$patch": "replace"}, {"name": "z"}]})
        )),
        ["z"]
    );
    assert_eq!(
        names(patched(
            object.clone(),
            json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}], "items": [{"name": "a", "image": "7"}]})
        )),
        ["b", "a"]
    );
    assert_eq!(
        names(patched(
            object,
            json!({"$setElementOrder/items": [{"name": "b"}, {"name": "a"}]})
        )),
        ["b", "a"]
    );
}

#[test]
fn an_order_needs_a_list_with_items() {
    let order = json!({"$setElementOrder/items": [{"name": "a"}]});
    assert_eq!(patched(json!({}), order.clone()), json!({}));
    assert_eq!(refused(&json!({"items": []}), order), Error::EmptyLists);
    assert_eq!(
        patched(
            json!({}),
            json!({"$setElementOrder/items": [{"name": "a"}], "items": [{"name": "a"}]})
        ),
        json!({"items": [{"name": "a"}]})
    );
}

#[test]
fn what_is_new_is_taken_without_nulls_and_directives() {
    assert_eq!(
        patched(
            json!({}),
            json!({"items": [{"name": "a", "image": null}, {"name": "b", "$patch": "delete"}], "args": null})
        ),
        json!({"items": [{"name": "a"}]})
    );
    assert_eq!(
        patched(json!({"args": "x"}), json!({"args": ["a"]})),
        json!({"args": ["a"]})
    );
}

#[test]
fn keys_that_are_not_retained_go() {
    let object = json!({"strategy": {"type": "Rolling", "rolling": 1}});
    assert_eq!(
        patched(
            object.clone(),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})
        ),
        json!({"strategy": {"type": "Recreate"}})
    );
    for patch in [
        json!({"strategy": {"$retainKeys": ["type"], "rolling": 2}}),
        json!({"strategy": {"$retainKeys": "type"}}),
    ] {
        let error = refused(&object, patch);
        assert_eq!(
            (error.status().code, error.to_string().as_str()),
            (400, "invalid patch format of retainKeys")
        );
    }
    assert_eq!(
        patched(
            json!({"items": [{"name": "v", "source": {"a": 1}}]}),
            json!({"items": [{"name": "v", "$retainKeys": ["name", "image"], "image": "i"}]})
        ),
        json!({"items": [{"name": "v", "image": "i"}]})
    );
}

#[test]
fn reports_errors_with_upstream_messages() {
    let object = json!({
        "items": [{"name": "a"}], "unplanned": [{"port": 1}], "grid": [["x"]], "finalizers": ["f"],
        "deep": {"k": {"l": "m"}}, "other": {"x": {}}, "args": ["a"],
    });
    for (patch, code, message) in [
        (
            json!({"items": [{"image": "i:9"}]}),
            500,
            "map: map[image:i:9] does not contain declared merge key: name",
        ),
        (
            json!({"$setElementOrder/items": [{"name": "b"}], "items": [{"name": "a", "image": "i:7"}]}),
            500,
            "The order in patch list:\n[map[image:i:7 name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (
            json!({"$setElementOrder/items": 5}),
            500,
            "expected a []interface {}, but received a int64",
        ),
        (
            json!({"$setElementOrder": []}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({"items": [{"name": "a", "$patch": "merge"}]}),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"items": [{"$patch": "delete"}]}),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            json!({"items": ["x"]}),
            500,
            "list element types are not identical: [[map[name:a]] [x]]",
        ),
        (
            json!({"finalizers": [5]}),
            500,
            "list element types are not identical: [[f] [5]]",
        ),
        (
            json!({"unplanned": [{"port": 2}]}),
            500,
            "cannot merge lists without merge key for struct",
        ),
        (json!({"grid": [["y"]]}), 500, "unexpected slice of slice"),
        (
            json!({"deep": {"k": {"l": "n"}}}),
            500,
            "merging an object in json but data type is not struct, instead is: map",
        ),
        (
            json!({"other": {"x": {}}}),
            500,
            "unable to find api field in struct Fields for the json field \"other\"",
        ),
        (
            json!([]),
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        let error = refused(&object, patch.clone());
        assert_eq!(
            (error.status().code, error.status().message.as_str()),
            (code, message),
            "{patch}"
        );
    }
}

#[test]
fn long_lists_are_merged_in_good_time() {
    let list = |from: i32, image: &str| -> Vec<Value> {
        (from..from + 20_000)
            .map(|i| json!({"name": format!("n{i}"), "image": image}))
            .collect()
    };
    let object = json!({"items": list(0, "1"), "finalizers": (0..20_000).collect::<Vec<_>>()});
    let patch = json!({"items": list(10_000, "2"), "finalizers": (10_000..30_000).collect::<Vec<_>>()});
    let result = patched(object, patch);
    assert_eq!(result["items"].as_array().unwrap().len(), 30_000);
    assert_eq!(result["finalizers"].as_array().unwrap().len(), 30_000);
}

fn named(names: &[String], image: &str) -> Value {
    Value::Array(
        names
            .iter()
            .map(|name| json!({"name": name, "image": image}))
            .collect(),
    )
}

proptest! {
    #[test]
    fn merged_lists_hold_every_item_once(
        live in prop::collection::btree_set("[a-f]", 0..6),
        patch in prop::collection::btree_set("[a-f]", 0..6).prop_map(Vec::from_iter).prop_shuffle(),
    ) {
        let live: Vec<_> = live.into_iter().collect();
        let result = patched(json!({"items": named(&live, "1")}), json!({"items": named(&patch, "2")}));
        let names: Vec<_> = result["items"].as_array().unwrap().iter().map(|i| i["name"].as_str().unwrap()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        let mut expected: Vec<_> = live.iter().chain(&patch).map(String::as_str).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(sorted, expected);
        // The order of the patch is kept, and so is the order of what it does not name.
        let from_patch: Vec<_> = names.iter().filter(|n| patch.iter().any(|p| p == *n)).collect();
        prop_assert_eq!(from_patch, patch.iter().collect::<Vec<_>>());
        let others: Vec<_> = names.iter().filter(|n| !patch.iter().any(|p| p == *n)).collect();
        prop_assert!(others.is_sorted());
    }

    #[test]
    fn the_same_patch_twice_changes_nothing_more(
        live in prop::collection::btree_set("[a-f]", 0..6),
        patch in prop::collection::btree_set("[a-f]", 0..6).prop_map(Vec::from_iter).prop_shuffle(),
        labels in prop::collection::btree_map("[a-c]", prop::option::of("[xy]"), 0..3),
    ) {
        let patch = json!({"finalizers": patch, "items": named(&patch, "2"), "labels": labels});
        let live: Vec<_> = live.into_iter().collect();
        let once = patched(json!({"finalizers": live, "items": named(&live, "1")}), patch.clone());
        prop_assert_eq!(patched(once.clone(), patch), once);
    }
}

#[test]
fn replaces_objects_with_patch_strategy_replace() {
    let budget = crate::schema::schema()
        .kind("policy", "v1", "PodDisruptionBudget")
        .expect("there is such a kind");
    let object = json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "1"}}}});
    let patch = json!({"spec": {"selector": {"matchLabels": {"b": "2"}}}});
    assert_eq!(
        apply(object, patch, &budget).unwrap(),
        json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"b": "2"}}}})
    );
}
