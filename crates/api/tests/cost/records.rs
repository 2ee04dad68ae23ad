//! Server-side apply, and the record of who set what.

use k3_api::{
    apply::{
        FieldSet,
        managed::{ApplyConflictPolicy, ApplyError, FieldManager, ResetFields, SingleVersion},
    },
    kinds::builtin,
    time::Time,
};
use serde_json::{Value, json};

use super::{
    clock::{Growth, assert_grows_slowly, few, many},
    objects::{Entries, FieldLocation},
    patches::merge_locations,
};

/// Runs with what an apply to a kind needs.
fn with_subject<T>(location: &FieldLocation, run: impl FnOnce(&FieldManager<'_>) -> T) -> T {
    let api_version = location.kind.api_version();
    let mut blank = Value::Object(location.kind.ty.zero());
    blank["apiVersion"] = json!(api_version);
    blank["kind"] = json!(location.kind.kind.as_str());
    let reset = ResetFields::Fields(FieldSet::of_fields(&[&["status"]]));
    run(&FieldManager {
        api_version: &api_version,
        kind: &location.kind.kind,
        subresource: "",
        typed: &location.kind.ty,
        blank: &blank,
        reset: &reset,
        versions: &SingleVersion,
    })
}

fn now() -> Time {
    Time::from_unix(1_700_000_000, 0)
}

fn without_record(mut object: Value) -> Value {
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

#[test]
fn applying_grows_as_lists_do() {
    let growth = Growth::default();
    for location in merge_locations() {
        with_subject(&location, |subject| {
            let tracked = |object: Value| {
                let mut object = without_record(object);
                subject.track(None, &mut object, "creator", now());
                object
            };
            let first = tracked(location.object(1, Entries::Distinct));
            let long = tracked(location.object(many(), Entries::Distinct));
            let short = tracked(location.object(few(), Entries::Distinct));
            let live = |count| {
                if count == many() {
                    long.clone()
                } else {
                    short.clone()
                }
            };
            for entries in [Entries::Distinct, Entries::Equal] {
                let name = format!("{} {entries:?}", location.name());
                let configuration = location.sizes(entries);
                growth.check(
                    &format!("track {name}"),
                    |count| (first.clone(), without_record(configuration(count))),
                    |(live, mut new)| subject.track(Some(&live), &mut new, "other", now()),
                );
                for force in [ApplyConflictPolicy::Yes, ApplyConflictPolicy::No] {
                    growth.check(
                        &format!("apply {name}"),
                        |count| {
                            let configuration = without_record(configuration(count));
                            (live(count), reversed(configuration, &location.pointer()))
                        },
                        |(live, configuration)| {
                            if let Err(error) =
                                subject.apply(Some(&live), &configuration, "applier", force, now())
                            {
                                assert!(error.to_string().len() <= 1 << 20, "{name}");
                            }
                        },
                    );
                }
            }
        });
    }
    growth.finish();
}

/// The object with the entries of a field in the other order, and with other values in maps.
fn reversed(mut object: Value, pointer: &str) -> Value {
    match object.pointer_mut(pointer) {
        Some(Value::Array(items)) => items.reverse(),
        Some(Value::Object(fields)) => {
            for value in fields.values_mut().filter(|value| value.is_string()) {
                *value = json!("other");
            }
        }
        _ => {}
    }
    object
}

fn config_map() -> FieldLocation {
    let field_locations = merge_locations();
    let location = field_locations
        .into_iter()
        .find(|location| location.kind.kind.as_str() == "ConfigMap");
    location.expect("a map of texts is one of the ways")
}

#[test]
fn records_of_many_managers_grow_as_their_text_does() {
    let location = config_map();
    assert_eq!(
        builtin()
            .all()
            .iter()
            .filter(|kind| kind.kind.as_str() == "ConfigMap")
            .count(),
        1
    );
    with_subject(&location, |subject| {
        for operation in ["Apply", "Update"] {
            let object = |count: usize| {
                let data: serde_json::Map<_, _> = (0..count)
                    .map(|number| (format!("k{number}"), json!("v")))
                    .collect();
                let entries: Vec<_> = (0..count)
                    .map(|number| {
                        json!({
                            "manager": format!("m{number}"), "operation": operation, "apiVersion": "v1",
                            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                            "fieldsV1": {"f:data": {format!("f:k{number}"): {}}},
                        })
                    })
                    .collect();
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "managedFields": entries}, "data": data})
            };
            let changed = |count: usize| {
                let data: serde_json::Map<_, _> = (0..count)
                    .map(|number| (format!("k{number}"), json!("w")))
                    .collect();
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
            };
            assert_grows_slowly(
                &format!("track with many who {operation}"),
                |count| (object(count), changed(count)),
                |(live, mut new)| subject.track(Some(&live), &mut new, "other", now()),
            );
            for force in [ApplyConflictPolicy::Yes, ApplyConflictPolicy::No] {
                assert_grows_slowly(
                    &format!("apply with many who {operation}"),
                    |count| (object(count), changed(count)),
                    |(live, configuration)| match subject.apply(
                        Some(&live),
                        &configuration,
                        "applier",
                        force,
                        now(),
                    ) {
                        Err(ApplyError::Conflicts(conflicts)) => {
                            assert!(!conflicts.causes().is_empty());
                            assert!(conflicts.to_string().len() <= 1 << 20);
                        }
                        other => drop(other.unwrap()),
                    },
                );
            }
        }
    });
}
