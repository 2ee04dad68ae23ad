//! Probe schedules and thresholds.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe;
use serde_json::{Value, json};

use crate::probes::{
    ProbeOutcome, ProbeType,
    prober::ProbeResult,
    schedule::{ProbeSchedule, ThresholdCounter, period_fraction},
};

fn probe(spec: Value) -> Probe {
    serde_json::from_value(spec).unwrap()
}

#[test]
fn readiness_runs_immediately_and_others_after_a_period() {
    use ProbeType::{Liveness, Readiness, Startup};
    // Kind, initial delay, period, age of the container, expected delay.
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
        let schedule = ProbeSchedule::new(
            kind,
            &probe(json!({"initialDelaySeconds": delay, "periodSeconds": period})),
        );
        let [age, expected] = [age, expected].map(Duration::from_secs_f64);
        let first_delay = schedule.first_delay(age, Duration::from_hours(1), 0.5);
        assert_eq!(first_delay, expected, "{kind} {delay} {period} {age:?}");
    }
}

#[test]
fn spreads_probes_of_running_containers_after_agent_start() {
    let schedule = ProbeSchedule::new(
        ProbeType::Liveness,
        &probe(json!({"periodSeconds": 10, "initialDelaySeconds": 30})),
    );
    let old_container = Duration::from_hours(1);
    let new_container = Duration::from_secs(1);
    let uptime = Duration::from_secs(2);
    assert_eq!(
        schedule.first_delay(old_container, uptime, 0.25),
        Duration::from_millis(2500)
    );
    // A container that this agent started keeps its regular schedule.
    assert_eq!(
        schedule.first_delay(new_container, uptime, 0.25),
        Duration::from_secs(29)
    );
    // The initial delay still applies.
    assert_eq!(
        schedule.first_delay(Duration::from_secs(3), uptime, 0.25),
        Duration::from_secs(27)
    );
    assert!((period_fraction("a") - period_fraction("b")).abs() > f64::EPSILON);
    assert!((0.0..=1.0).contains(&period_fraction("a")));
}

#[test]
fn consecutive_results_reach_thresholds() {
    let spec = probe(json!({"successThreshold": 2, "failureThreshold": 3}));
    let mut counter = ThresholdCounter::new(ProbeType::Readiness, &spec);
    let outcomes: Vec<_> = "++-+--+---+++"
        .chars()
        .map(|sign| match sign {
            '+' => ProbeResult::Success,
            _ => ProbeResult::Failure,
        })
        .map(|result| match counter.count(result).outcome {
            Some(ProbeOutcome::Success) => 'S',
            Some(ProbeOutcome::Failure) => 'F',
            _ => '.',
        })
        .collect();
    assert_eq!(outcomes.into_iter().collect::<String>(), ".S.......F.SS");
}

#[test]
fn stops_after_failed_liveness_and_after_startup() {
    let threshold_one = probe(json!({"failureThreshold": 1}));
    // Kind, result, whether it is the last probe.
    let cases = [
        (ProbeType::Startup, ProbeResult::Success, true),
        (ProbeType::Startup, ProbeResult::Failure, true),
        (ProbeType::Liveness, ProbeResult::Success, false),
        (ProbeType::Liveness, ProbeResult::Failure, true),
        (ProbeType::Readiness, ProbeResult::Failure, false),
    ];
    for (kind, result, is_last) in cases {
        let decision = ThresholdCounter::new(kind, &threshold_one).count(result);
        assert_eq!(decision.is_last, is_last, "{kind} {result:?}");
    }
    // By default three failures, and one success.
    let mut counter = ThresholdCounter::new(ProbeType::Liveness, &probe(json!({})));
    let failures = [ProbeResult::Failure; 3].map(|result| counter.count(result).outcome);
    assert_eq!(failures, [None, None, Some(ProbeOutcome::Failure)]);
}
