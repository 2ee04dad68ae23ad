//! What recorders promise.

use std::time::Duration;

use k8s_openapi::{api::core::v1::ObjectReference, jiff::Timestamp};
use tokio::time::Instant;

use super::{
    Kind, Style,
    correlator::{Correlator, Verdict},
    record::{Count, Told},
};

fn told(name: &str, reason: &str, note: &str) -> Told {
    Told {
        style: Style::Core,
        component: "tester".to_owned(),
        instance: String::new(),
        regarding: ObjectReference {
            kind: Some("Pod".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectReference::default()
        },
        related: None,
        kind: Kind::Warning,
        reason: reason.to_owned(),
        action: "Test".to_owned(),
        note: note.to_owned(),
        at: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

/// What becomes of it: a new event (`+`), a higher count (`2`) or nothing (`-`), and the text.
fn fate(correlator: &mut Correlator, told: Told, now: Instant) -> (String, String) {
    match correlator.judge(told, now) {
        Verdict::Filtered => ("-".to_owned(), String::new()),
        Verdict::First(told, _) => ("+".to_owned(), told.note),
        Verdict::Again(told, Count { count, .. }) => (count.to_string(), told.note),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_again_is_counted() {
    let (mut correlator, now) = (Correlator::new(), Instant::now());
    let fates = ["a", "a", "b", "a"].map(|note| fate(&mut correlator, told("web", "Failed", note), now).0);
    assert_eq!(fates, ["+", "2", "+", "3"]);
    // Another object, another reason, another action: another event.
    assert_eq!(fate(&mut correlator, told("db", "Failed", "a"), now).0, "+");
    assert_eq!(fate(&mut correlator, told("web", "Other", "a"), now).0, "+");
}

#[tokio::test(start_paused = true)]
async fn ten_texts_with_one_reason_are_combined_until_it_was_quiet_for_ten_minutes() {
    let (mut correlator, mut now) = (Correlator::new(), Instant::now());
    for number in 1..=9 {
        assert_eq!(
            fate(
                &mut correlator,
                told("web", "Failed", &format!("try {number}")),
                now
            )
            .0,
            "+"
        );
    }
    let tenth = fate(&mut correlator, told("web", "Failed", "try 10"), now);
    assert_eq!(
        tenth,
        (
            "+".to_owned(),
            "(combined from similar events): try 10".to_owned()
        )
    );
    let next = fate(&mut correlator, told("web", "Failed", "try 11"), now);
    assert_eq!(
        next,
        (
            "2".to_owned(),
            "(combined from similar events): try 11".to_owned()
        )
    );
    assert_eq!(
        fate(&mut correlator, told("web", "Other", "try 12"), now).1,
        "try 12"
    );
    now += Duration::from_secs(601);
    assert_eq!(
        fate(&mut correlator, told("web", "Failed", "try 13"), now).1,
        "try 13"
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_tells_25_events_about_an_object_and_then_one_every_five_minutes() {
    let (mut correlator, mut now) = (Correlator::new(), Instant::now());
    let mut fates = |name: &str, times: usize, now| {
        let fates = (0..times).filter(|_| fate(&mut correlator, told(name, "Failed", "a"), now).0 != "-");
        fates.count()
    };
    assert_eq!(fates("web", 100, now), 25);
    assert_eq!(fates("db", 100, now), 25);
    now += Duration::from_secs(299);
    assert_eq!(fates("web", 100, now), 0);
    now += Duration::from_secs(2);
    assert_eq!(fates("web", 100, now), 1);
    now += Duration::from_hours(24);
    assert_eq!(fates("web", 100, now), 25);
}

#[tokio::test(start_paused = true)]
async fn names_are_unique_and_names_that_the_api_takes() {
    let (mut correlator, now) = (Correlator::new(), Instant::now());
    let mut names = Vec::new();
    for object in ["web", "web", "system:node", "a..b", "-a", "a.b", &"x".repeat(250)] {
        let note = format!("{}", names.len());
        let Verdict::First(_, count) = correlator.judge(told(object, "Failed", &note), now) else {
            panic!("each text is new");
        };
        names.push(count.name);
    }
    assert!(
        names[0].starts_with("web.18fa") && names[5].starts_with("a.b.18fa"),
        "{names:?}"
    );
    for name in &names {
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        assert!(
            name.len() <= 253 && name.chars().all(is_fine) && !name.contains("..") && !name.starts_with('-'),
            "{name}"
        );
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 7);
}
