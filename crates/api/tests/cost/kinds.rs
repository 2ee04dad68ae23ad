//! The rules of all kinds.

use k3_api::{
    bound,
    kinds::Kind,
    rules::{self, Circumstances, Part, User},
    status::Status,
    time::Time,
};
use serde_json::Value;

use super::{
    clock::{MANY, assert_grows_slowly},
    objects::{Entries, Place, places},
};

/// What an answer may take.
const MOST_ANSWER: usize = 256 * 1024;

#[test]
fn validation_grows_as_lists_do() {
    for place in places() {
        for entries in [Entries::Distinct, Entries::Equal] {
            check(&format!("{} {entries:?}", place.name()), &place, |count| {
                place.object(count, entries)
            });
        }
    }
}

#[test]
fn validation_of_entries_that_say_nothing_grows_as_lists_do() {
    for place in places() {
        check(&format!("{} empty", place.name()), &place, |count| {
            place.object(count, Entries::Empty)
        });
    }
}

#[test]
fn validation_grows_as_neighbouring_lists_do() {
    let mut seen = std::collections::HashSet::new();
    for place in places() {
        if seen.insert((place.of.package, place.of.version, place.of.name)) {
            let name = format!("{} crowded", place.name());
            // There are up to twenty such lists.
            check(&name, &place, |count| place.crowded(count / 4));
        }
    }
}

fn check(name: &str, place: &Place, object: impl Fn(usize) -> Value) {
    let user = User::default();
    let at = Circumstances {
        kind: place.kind,
        now: Time::from_unix(1_700_000_000, 0),
        user: &user,
    };
    let old = object(1);
    let whole = object(MANY);
    let few = object(super::clock::FEW);
    let pick = |count| if count == MANY { whole.clone() } else { few.clone() };
    assert_grows_slowly(&format!("create {name}"), pick, |mut object| {
        if place.is_stored() {
            rules::of(place.kind).default(&mut object);
            bounded(name, rules::create(&mut object, &at));
        } else {
            bounded(name, rules::review(&object, &at));
        }
    });
    if !place.is_stored() {
        return;
    }
    assert_grows_slowly(&format!("update {name}"), &pick, |mut object| {
        let before = object.clone();
        bounded(name, rules::update(&mut object, &before, Part::Object, &at));
    });
    assert_grows_slowly(&format!("change {name}"), &pick, |mut object| {
        bounded(name, rules::update(&mut object, &old, Part::Object, &at));
    });
    if has_status(place.kind) {
        assert_grows_slowly(&format!("status of {name}"), &pick, |mut object| {
            let before = object.clone();
            bounded(name, rules::update(&mut object, &before, Part::Status, &at));
        });
        assert_grows_slowly(&format!("changed status of {name}"), &pick, |mut object| {
            bounded(name, rules::update(&mut object, &old, Part::Status, &at));
        });
    }
    assert_grows_slowly(&format!("table of {name}"), &pick, |object| {
        rules::of(place.kind).row(&object, at.now);
    });
}

fn has_status(kind: &Kind) -> bool {
    kind.subresource("status").is_some()
}

/// Asserts that an answer is small, and that no part of it is larger than it may be.
fn bounded<T>(name: &str, answer: Result<T, Status>) {
    if let Err(status) = answer {
        let text = status.to_json();
        assert!(text.len() <= MOST_ANSWER, "{name}: {} bytes", text.len());
        assert!(status.message.len() <= 2 * bound::MOST_MESSAGE, "{name}: {}", status.message.len());
    }
}
