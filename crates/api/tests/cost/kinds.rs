//! The rules of all kinds.

use std::{cell::LazyCell, collections::HashSet};

use k3_api::{
    limits,
    schema::Type,
    status::Status,
    strategy::{self, Part, StrategyContext, User},
    time::Time,
};
use serde_json::Value;

use super::{
    clock::{Growth, few, many},
    objects::{Entries, Place, places},
};

/// What an answer may take.
const MOST_ANSWER: usize = 256 * 1024;

#[test]
fn validation_grows_as_lists_of_pods_do() {
    distinct(is_of_pods);
}

#[test]
fn validation_grows_as_lists_do() {
    distinct(|field_path| !is_of_pods(field_path));
}

/// Pods have as many lists as all others together.
fn is_of_pods(field_path: &Place) -> bool {
    matches!(
        field_path.kind.kind.as_str(),
        "Pod" | "PodTemplate" | "ReplicationController"
    )
}

fn distinct(chosen: impl Fn(&Place) -> bool) {
    let growth = Growth::default();
    for field_path in places().into_iter().filter(chosen) {
        check(&growth, &field_path.name(), &field_path, |count| {
            field_path.object(count, Entries::Distinct)
        });
    }
    growth.finish();
}

#[test]
fn validation_of_equal_and_empty_entries_grows_as_lists_do() {
    let growth = Growth::default();
    let structs = |field_path: &Place| matches!(&field_path.field.ty, Type::List(items) if matches!(**items, Type::Struct(_)));
    for field_path in places().into_iter().filter(structs) {
        check(
            &growth,
            &format!("{} equal", field_path.name()),
            &field_path,
            |count| field_path.object(count, Entries::EqualOrEmpty),
        );
    }
    growth.finish();
}

#[test]
fn validation_grows_as_neighbouring_lists_do() {
    let growth = Growth::default();
    let mut seen = HashSet::new();
    for field_path in places() {
        if seen.insert((field_path.of.package, field_path.of.version, field_path.of.name)) {
            let name = format!("{} crowded", field_path.name());
            // There are up to twenty such lists.
            check(&growth, &name, &field_path, |count| field_path.crowded(count / 4));
        }
    }
    growth.finish();
}

fn check(growth: &Growth, name: &str, field_path: &Place, object: impl Fn(usize) -> Value) {
    let user = User::default();
    let at = StrategyContext {
        kind: field_path.kind,
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
    if !field_path.is_stored() {
        growth.check(&format!("review {name}"), pick, |object| {
            bounded(name, strategy::review(&object, &at));
        });
        return;
    }
    growth.check(&format!("create {name}"), pick, |mut object| {
        strategy::for_kind(field_path.kind).set_defaults(&mut object);
        bounded(name, strategy::create(&mut object, &at));
    });
    let part = if field_path.is_status() && field_path.kind.subresource("status").is_some() {
        Part::Status
    } else {
        Part::Object
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
        strategy::for_kind(field_path.kind).row(&object, at.now);
    });
}

/// Asserts that an answer is small, and that no part of it is larger than it may be.
fn bounded<T>(name: &str, answer: Result<T, Status>) {
    if let Err(status) = answer {
        let text = status.to_json();
        assert!(text.len() <= MOST_ANSWER, "{name}: {} bytes", text.len());
        assert!(
            status.message.len() <= 2 * limits::MAX_MESSAGE_BYTES,
            "{name}: {}",
            status.message.len()
        );
    }
}
