//! When to look, and how many looks make a result.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use serde_json::{Value, json};

use crate::probes::{
    Outcome, ProbeKind,
    look::length,
    schedule::{Tally, Times, share},
};

fn probe(spec: Value) -> Probe {
    serde_json::from_value(spec).unwrap()
}

#[test]
fn readiness_is_looked_at_at_once_and_the_others_after_a_period() {
    use ProbeKind::{Liveness, Readiness, Startup};
    // Kind, delay, period, how long the container runs, how long to wait.
    let cases = [
        (Readiness, 0, 10, 0.0, 0.0),
        (Readiness, 5, 10, 0.0, 5.0),
        (Readiness, 5, 10, 2.0, 3.0),
        (Readiness, 5, 10, 60.0, 0.0),
        (Liveness, 0, 10, 0.0, 10.0),
        (Liveness, 0, 10, 2.5, 7.5),
        (Liveness, 0, 10, 25.0, 5.0),
        (Liveness, 5, 10, 0.0, 10.0),
        (Liveness, 15, 10, 0.0, 20.0),
        (Startup, 0, 1, 0.0, 1.0),
        (Startup, 3, 2, 0.0, 4.0),
    ];
    for (kind, delay, period, age, expected) in cases {
        let times = Times::of(
            kind,
            &probe(json!({"initialDelaySeconds": delay, "periodSeconds": period})),
        );
        let [age, expected] = [age, expected].map(Duration::from_secs_f64);
        let waits = times.first(age, Duration::from_hours(1), 0.5);
        assert_eq!(waits, expected, "{kind} {delay} {period} {age:?}");
    }
}

#[test]
fn an_agent_that_begins_spreads_its_looks_at_what_is_there() {
    let times = Times::of(
        ProbeKind::Liveness,
        &probe(json!({"periodSeconds": 10, "initialDelaySeconds": 30})),
    );
    let old = Duration::from_hours(1);
    let young = Duration::from_secs(1);
    let up = Duration::from_secs(2);
    assert_eq!(times.first(old, up, 0.25), Duration::from_millis(2500));
    // What it began itself comes when it is due, and what is not due yet does not come earlier.
    assert_eq!(times.first(young, up, 0.25), Duration::from_secs(29));
    assert_eq!(
        times.first(Duration::from_secs(3), up, 0.25),
        Duration::from_secs(27)
    );
    assert!((share("a") - share("b")).abs() > f64::EPSILON);
    assert!((0.0..=1.0).contains(&share("a")));
}

#[test]
fn enough_in_a_row_is_a_result() {
    let spec = probe(json!({"successThreshold": 2, "failureThreshold": 3}));
    let mut tally = Tally::of(ProbeKind::Readiness, &spec);
    let found: Vec<_> = "++-+--+---+++"
        .chars()
        .map(|well| match tally.count(well == '+').outcome {
            Some(Outcome::Success) => 'S',
            Some(Outcome::Failure) => 'F',
            _ => '.',
        })
        .collect();
    assert_eq!(found.into_iter().collect::<String>(), ".S.......F.SS");
}

#[test]
fn what_fails_is_left_alone_and_what_is_up_stays_up() {
    let once = probe(json!({"failureThreshold": 1}));
    // Kind, found, whether that was the last look.
    let cases = [
        (ProbeKind::Startup, true, true),
        (ProbeKind::Startup, false, true),
        (ProbeKind::Liveness, true, false),
        (ProbeKind::Liveness, false, true),
        (ProbeKind::Readiness, false, false),
    ];
    for (kind, well, last) in cases {
        assert_eq!(Tally::of(kind, &once).count(well).is_last, last, "{kind} {well}");
    }
    // By default three failures, and one success.
    let mut tally = Tally::of(ProbeKind::Liveness, &probe(json!({})));
    let failures = [false, false, false].map(|well| tally.count(well).outcome);
    assert_eq!(failures, [None, None, Some(Outcome::Failure)]);
}

#[test]
fn times_are_written_as_go_writes_them() {
    for (seconds, text) in [(1, "1s"), (60, "1m0s"), (3661, "1h1m1s")] {
        assert_eq!(length(Duration::from_secs(seconds)), text);
    }
}
