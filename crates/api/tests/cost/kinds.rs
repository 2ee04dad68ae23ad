//! The rules of all kinds.

use std::{cell::LazyCell, collections::HashSet};

use k3_api::{
    limits,
    schema::Type,
    status::Status,
    strategy::{self, StrategyContext, User, WrittenPart},
    time::Time,
};
use serde_json::Value;

use super::{
    clock::{Growth, few, many},
    objects::{Entries, FieldLocation, field_locations},
};

/// What an answer may take.
const MAX_ANSWER: usize = 256 * 1024;

#[test]
fn validation_grows_as_lists_of_pods_do() {
    distinct(is_of_pods);
}

#[test]
fn validation_grows_as_lists_do() {
    distinct(|location| !is_of_pods(location));
}

/// Pods have as many lists as all others together.
fn is_of_pods(location: &FieldLocation) -> bool {
    matches!(
        location.kind.kind.as_str(),
        "Pod" | "PodTemplate" | "ReplicationController"
    )
}

fn distinct(chosen: impl Fn(&FieldLocation) -> bool) {
    let growth = Growth::default();
    for location in field_locations().into_iter().filter(chosen) {
        check(&growth, &location.name(), &location, |count| {
            location.object(count, Entries::Distinct)
        });
    }
    growth.finish();
}

#[test]
fn validation_of_equal_and_empty_entries_grows_as_lists_do() {
    let growth = Growth::default();
    let structs = |location: &FieldLocation| matches!(&location.field.ty, Type::List(items) if matches!(**items, Type::Struct(_)));
    for location in field_locations().into_iter().filter(structs) {
        check(
            &growth,
            &format!("{} equal", location.name()),
            &location,
            |count| location.object(count, Entries::EqualOrEmpty),
        );
    }
    growth.finish();
}

#[test]
fn validation_grows_as_neighbouring_lists_do() {
    let growth = Growth::default();
    let mut seen = HashSet::new();
    for location in field_locations() {
        if seen.insert((location.of.package, location.of.version, location.of.name)) {
            let name = format!("{} crowded", location.name());
            // There are up to twenty such lists.
            check(&growth, &name, &location, |count| location.crowded(count / 4));
        }
    }
    growth.finish();
}

fn check(growth: &Growth, name: &str, location: &FieldLocation, object: impl Fn(usize) -> Value) {
    let user = User::default();
    let at = StrategyContext {
        kind: location.kind,
        now: Time::from_unix(1_700_000_000, 0),
        user: &user,
    };
    let long = object(many());
    let short = LazyCell::new(|| object(few()));
    let pick = |count| {
        if count == many() {
            long.clone()
        } else {
            short.clone()
        }
    };
    if !location.is_stored() {
        growth.check(&format!("review {name}"), pick, |object| {
            bounded(name, strategy::review(&object, &at));
        });
        return;
    }
    growth.check(&format!("create {name}"), pick, |mut object| {
        strategy::for_kind(location.kind).set_defaults(&mut object);
        bounded(name, strategy::create(&mut object, &at));
    });
    let part = if location.is_status() && location.kind.subresource("status").is_some() {
        WrittenPart::Status
    } else {
        WrittenPart::Object
    };
    growth.check(&format!("update {name}"), pick, |mut object| {
        let before = object.clone();
        bounded(name, strategy::update(&mut object, &before, part, &at));
    });
    let old = object(1);
    growth.check(&format!("change {name}"), pick, |mut object| {
        bounded(name, strategy::update(&mut object, &old, part, &at));
    });
    growth.check(&format!("table of {name}"), pick, |object| {
        strategy::for_kind(location.kind).row(&object, at.now);
    });
}

/// Asserts that an answer is small, and that no part of it is larger than it may be.
fn bounded<T>(name: &str, answer: Result<T, Status>) {
    if let Err(status) = answer {
        let text = status.to_json();
        assert!(text.len() <= MAX_ANSWER, "{name}: {} bytes", text.len());
        assert!(
            status.message.len() <= 2 * limits::MAX_MESSAGE_BYTES,
            "{name}: {}",
            status.message.len()
        );
    }
}
