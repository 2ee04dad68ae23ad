//! Bodies and patches.

use std::{collections::HashSet, fmt::Write as _};

use k3_api::{
    decode,
    patch::{json, merge, strategic},
    protobuf,
    schema::{ListMergeKind, Type, schema},
};
use serde_json::{Value, json};

use super::{
    clock::{Growth, assert_grows_slowly},
    objects::{Entries, FieldLocation, field_locations},
};

/// One field per way of decoding and merging lists and maps.
pub(crate) fn merge_locations() -> Vec<FieldLocation> {
    let mut seen = HashSet::new();
    let mut field_locations = field_locations();
    field_locations.retain(|location| {
        let items = match &location.field.ty {
            Type::List(items) => format!("list of {}", sort(items)),
            Type::Map(values, _) => format!("map of {}", sort(values)),
            _ => "strings".to_owned(),
        };
        let listing = match &location.field.listing {
            ListMergeKind::Atomic => 0,
            ListMergeKind::Set => 1,
            ListMergeKind::Keys(keys) => 1 + keys.len(),
        };
        let merging = (listing, location.field.patch.merge, location.field.atomic);
        location.is_stored() && seen.insert((items, merging))
    });
    field_locations
}

fn sort(ty: &Type) -> &'static str {
    match ty {
        Type::Struct(_) => "structs",
        Type::List(_) => "lists",
        Type::Map(..) => "maps",
        _ => "scalars",
    }
}

#[test]
fn decoding_grows_as_bodies_do() {
    let growth = Growth::default();
    for location in merge_locations() {
        let ty = location.kind.ty.table().expect("built-in kinds are in the table");
        let object = location.sizes(Entries::Distinct);
        growth.check(
            &format!("JSON {}", location.name()),
            |count| object(count).to_string(),
            |body| drop(decode::json(body.as_bytes(), ty).unwrap()),
        );
        growth.check(
            &format!("protobuf {}", location.name()),
            |count| protobuf::encode(&object(count), ty).unwrap(),
            |body| drop(protobuf::decode(&body, ty).unwrap()),
        );
    }
    growth.finish();
}

#[test]
fn yaml_grows_as_bodies_do() {
    let ty = schema().kind("", "v1", "ConfigMap").unwrap();
    assert_grows_slowly(
        "YAML",
        |count| {
            let mut body = "apiVersion: v1\nkind: ConfigMap\ndata:\n".to_owned();
            for number in 0..count {
                writeln!(body, "  k{number}: v").unwrap();
            }
            body
        },
        |body| drop(decode::yaml(body.as_bytes(), ty).unwrap()),
    );
}

#[test]
fn repeated_fields_cost_no_more_than_their_text() {
    let ty = schema().kind("", "v1", "ConfigMap").unwrap();
    assert_grows_slowly(
        "metadata repeated",
        |count| {
            let labels: Vec<_> = (0..count).map(|number| format!("\"k{number}\":\"v\"")).collect();
            let again = ",\"metadata\":{}".repeat(count);
            format!("{{\"metadata\":{{\"labels\":{{{}}}}}{again}}}", labels.join(","))
        },
        |body| drop(decode::json(body.as_bytes(), ty).unwrap()),
    );
}

#[test]
fn merging_grows_as_patches_do() {
    let growth = Growth::default();
    for location in merge_locations() {
        let live = location.sizes(Entries::Distinct);
        for entries in [Entries::Distinct, Entries::Equal] {
            let patch = location.sizes(entries);
            let prepare = |count| (live(count), patch(count));
            let name = format!("{} {entries:?}", location.name());
            growth.check(&format!("strategic {name}"), prepare, |(object, patch)| {
                drop(strategic::apply(object, patch, &location.kind.ty));
            });
            growth.check(&format!("merge {name}"), prepare, |(object, patch)| {
                drop(merge::apply(object, patch));
            });
        }
    }
    growth.finish();
}

#[test]
fn naming_one_item_many_times_is_bounded() {
    let ty = schema().kind("", "v1", "Pod").unwrap();
    assert_grows_slowly(
        "one container, patched many times",
        |count| {
            let env: Vec<_> = (0..count)
                .map(|number| json!({"name": format!("E{number}")}))
                .collect();
            let pod = json!({"spec": {"containers": [{"name": "a", "env": env}]}});
            let patches: Vec<_> = (0..count)
                .map(|number| json!({"name": "a", "env": [{"name": format!("E{number}"), "value": "1"}]}))
                .collect();
            (pod, json!({"spec": {"containers": patches}}))
        },
        |(pod, patch)| {
            let patched = strategic::apply(pod, patch, &ty);
            if let Err(error) = patched {
                assert_eq!(error.status().code, 413);
            }
        },
    );
}

#[test]
fn operations_cost_the_same_anywhere_in_a_list() {
    for (name, operation) in [
        (
            "insert at the front",
            json!({"op": "add", "path": "/list/0", "value": 1}),
        ),
        (
            "insert in the middle",
            json!({"op": "add", "path": "/list/100", "value": {"a": 1}}),
        ),
        (
            "remove from the front",
            json!({"op": "remove", "path": "/list/0"}),
        ),
        (
            "move to the end",
            json!({"op": "move", "from": "/list/0", "path": "/list/-"}),
        ),
        ("test", json!({"op": "test", "path": "/list/5", "value": "x"})),
    ] {
        assert_grows_slowly(
            name,
            |count| {
                let list = vec![json!("x"); 20 * count];
                (json!({ "list": list }), vec![operation.clone(); count])
            },
            |(document, operations)| {
                let patch = json::Patch::try_new(Value::Array(operations)).unwrap();
                drop(patch.apply(document).unwrap());
            },
        );
    }
}

#[test]
fn many_operations_on_a_long_list_take_less_than_moving_it_each_time() {
    // To move the list for each operation would copy 100 GB.
    let list: Vec<Value> = vec![json!(0); 300_000];
    let operations = vec![json!({"op": "add", "path": "/list/0", "value": 1}); json::MAX_OPERATIONS];
    let patch = json::Patch::try_new(Value::Array(operations)).unwrap();
    let patched = patch.apply(json!({ "list": list })).unwrap();
    assert_eq!(patched["list"].as_array().unwrap().len(), 310_000);
    assert_eq!(patched["list"][9_999], 1);
    assert_eq!(patched["list"][10_000], 0);
}

#[test]
fn messages_of_patches_are_bounded() {
    let ty = schema().kind("", "v1", "Pod").unwrap();
    let values: Vec<_> = (0..20_000)
        .map(|number| json!({"key": format!("k{number}")}))
        .collect();
    let order = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": values}});
    let error = strategic::apply(json!({"spec": {"containers": [{"name": "a"}]}}), order, &ty).unwrap_err();
    assert!(error.status().to_json().len() <= 256 * 1024);
}
