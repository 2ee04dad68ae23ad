//! Tests of event recording.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{
    api::{
        core::v1::{Event as CoreEvent, ObjectReference},
        events::v1::Event as EventsV1Event,
    },
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    EventApi, EventBroadcaster, EventType,
    correlator::{CorrelationDecision, Correlator},
    record::{EventAttributes, EventCount},
};
use crate::{
    Clock,
    manager::{Runnable, Stop},
    testing::{FakeApi, eventually},
};

const SECOND: Duration = Duration::from_secs(1);

fn event(name: &str, reason: &str, note: &str) -> EventAttributes {
    EventAttributes {
        style: EventApi::Core,
        component: "tester".to_owned(),
        instance: String::new(),
        regarding: ObjectReference {
            kind: Some("Pod".to_owned()),
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            ..ObjectReference::default()
        },
        related: None,
        kind: EventType::Warning,
        reason: reason.to_owned(),
        action: "Test".to_owned(),
        note: note.to_owned(),
        at: Timestamp::from_second(1_800_000_000).unwrap(),
    }
}

/// The decision about an event: create (`+`), update (its count) or drop (`-`); and the note.
fn correlate(correlator: &mut Correlator, event: EventAttributes, now: Instant) -> (String, String) {
    match correlator.correlate(event, now) {
        CorrelationDecision::Filtered => ("-".to_owned(), String::new()),
        CorrelationDecision::First(event, _) => ("+".to_owned(), event.note),
        CorrelationDecision::Again(event, EventCount { times, .. }) => (times.to_string(), event.note),
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_events_are_counted() {
    let mut correlator = Correlator::new();
    let now = Instant::now();
    let decisions =
        ["a", "a", "b", "a"].map(|note| correlate(&mut correlator, event("web", "Failed", note), now).0);
    assert_eq!(decisions, ["+", "2", "+", "3"]);
    // Another object or another reason is another event.
    assert_eq!(correlate(&mut correlator, event("db", "Failed", "a"), now).0, "+");
    assert_eq!(correlate(&mut correlator, event("web", "Other", "a"), now).0, "+");
}

#[tokio::test(start_paused = true)]
async fn ten_notes_with_one_reason_are_combined_until_ten_minutes_pass() {
    let mut correlator = Correlator::new();
    let mut now = Instant::now();
    for number in 1..=9 {
        assert_eq!(
            correlate(
                &mut correlator,
                event("web", "Failed", &format!("try {number}")),
                now
            )
            .0,
            "+"
        );
    }
    let tenth = correlate(&mut correlator, event("web", "Failed", "try 10"), now);
    assert_eq!(
        tenth,
        (
            "+".to_owned(),
            "(combined from similar events): try 10".to_owned()
        )
    );
    let next = correlate(&mut correlator, event("web", "Failed", "try 11"), now);
    assert_eq!(
        next,
        (
            "2".to_owned(),
            "(combined from similar events): try 11".to_owned()
        )
    );
    assert_eq!(
        correlate(&mut correlator, event("web", "Other", "try 12"), now).1,
        "try 12"
    );
    now += Duration::from_secs(601);
    assert_eq!(
        correlate(&mut correlator, event("web", "Failed", "try 13"), now).1,
        "try 13"
    );
}

#[tokio::test(start_paused = true)]
async fn rate_limit_is_25_events_per_object_and_then_one_per_five_minutes() {
    let mut correlator = Correlator::new();
    let mut now = Instant::now();
    let mut recorded = |name: &str, times: usize, now| {
        let passed =
            (0..times).filter(|_| correlate(&mut correlator, event(name, "Failed", "a"), now).0 != "-");
        passed.count()
    };
    assert_eq!(recorded("web", 100, now), 25);
    assert_eq!(recorded("db", 100, now), 25);
    now += Duration::from_secs(299);
    assert_eq!(recorded("web", 100, now), 0);
    now += Duration::from_secs(2);
    assert_eq!(recorded("web", 100, now), 1);
    now += Duration::from_hours(24);
    assert_eq!(recorded("web", 100, now), 25);
}

#[tokio::test(start_paused = true)]
async fn event_names_are_unique_and_valid() {
    let mut correlator = Correlator::new();
    let now = Instant::now();
    let mut names = Vec::new();
    for object in ["web", "web", "system:node", "a..b", "-a", "a.b", &"x".repeat(250)] {
        let note = format!("{}", names.len());
        let CorrelationDecision::First(_, count) = correlator.correlate(event(object, "Failed", &note), now)
        else {
            panic!("each note is new");
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

// --- with an API ---

/// A broadcaster that writes to a fake API until it is stopped.
struct TestBroadcaster {
    api: FakeApi,
    events: Arc<EventBroadcaster>,
    stop: Stop,
    running: JoinSet<()>,
}

impl TestBroadcaster {
    fn new() -> Self {
        let api = FakeApi::new();
        let time = AtomicI64::new(1_800_000_000);
        let clock = Clock::new(move || Timestamp::from_second(time.fetch_add(1, Ordering::SeqCst)).unwrap());
        let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock));
        let stop = Stop::new();
        let mut running = JoinSet::new();
        let writer = Arc::clone(&events);
        let stopped = stop.clone();
        running.spawn(async move { writer.run(stopped).await.unwrap() });
        TestBroadcaster {
            api,
            events,
            stop,
            running,
        }
    }

    async fn end(mut self, grace: Duration) -> (FakeApi, Arc<EventBroadcaster>) {
        self.stop.stop(grace);
        self.running.join_next().await.unwrap().unwrap();
        (self.api, self.events)
    }
}

fn pod(name: &str) -> ObjectReference {
    event(name, "", "").regarding
}

#[tokio::test(start_paused = true)]
async fn repetitions_become_a_series() {
    let broadcaster = TestBroadcaster::new();
    let recorder = broadcaster.events.recorder("tester.example.com");
    for _ in 0..3 {
        recorder.event(&pod("web"), EventType::Warning, "Failed", "Start", "no image");
    }
    let (api, events) = broadcaster.end(SECOND).await;
    let [event] = &api.list::<EventsV1Event>()[..] else {
        panic!("{:?}", api.list::<EventsV1Event>());
    };
    let series = event.series.as_ref().unwrap();
    assert_eq!(series.count, 3);
    assert_eq!(series.last_observed_time.0.as_second(), 1_800_000_002);
    assert_eq!(event.event_time.as_ref().unwrap().0.as_second(), 1_800_000_000);
    assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(event.reporting_controller.as_deref(), Some("tester.example.com"));
    assert!(
        event
            .reporting_instance
            .as_ref()
            .unwrap()
            .starts_with("tester.example.com-")
    );
    assert_eq!(
        (event.type_.as_deref(), event.action.as_deref()),
        (Some("Warning"), Some("Start"))
    );
    assert_eq!(event.note.as_deref(), Some("no image"));
    assert_eq!(event.regarding.as_ref().unwrap().name.as_deref(), Some("web"));
    assert_eq!(events.recorder_metrics().of("written"), 3);
}

#[tokio::test(start_paused = true)]
async fn core_api_has_source_count_and_timestamps() {
    let broadcaster = TestBroadcaster::new();
    let recorder = broadcaster
        .events
        .recorder("replicaset-controller")
        .style(EventApi::Core);
    for _ in 0..2 {
        recorder.event(
            &pod("web"),
            EventType::Normal,
            "SuccessfulCreate",
            "",
            "Created pod: web-1",
        );
    }
    let (api, _) = broadcaster.end(SECOND).await;
    let [event] = &api.list::<CoreEvent>()[..] else {
        panic!("{:?}", api.list::<CoreEvent>());
    };
    let second = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
    assert_eq!(event.count, Some(2));
    assert_eq!(second(&event.first_timestamp), 1_800_000_000);
    assert_eq!(second(&event.last_timestamp), 1_800_000_001);
    assert_eq!(
        event.source.as_ref().unwrap().component.as_deref(),
        Some("replicaset-controller")
    );
    assert_eq!(
        event.reporting_component.as_deref(),
        Some("replicaset-controller")
    );
    assert_eq!(event.involved_object.name.as_deref(), Some("web"));
    assert_eq!((event.series.as_ref(), event.event_time.as_ref()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn recording_never_blocks_and_overflow_is_dropped() {
    let broadcaster = TestBroadcaster::new();
    broadcaster.api.faults().hang();
    let recorder = broadcaster.events.recorder("tester");
    for number in 0..1500 {
        recorder.event(
            &pod(&format!("web-{number}")),
            EventType::Normal,
            "Tested",
            "Test",
            "a note",
        );
    }
    assert_eq!(broadcaster.events.recorder_metrics().of("dropped"), 500);
    broadcaster.api.faults().clear();
    let (api, events) = broadcaster.end(600 * SECOND).await;
    assert_eq!(api.list::<EventsV1Event>().len(), 1000);
    assert_eq!(events.recorder_metrics().of("written"), 1000);
}

#[tokio::test(start_paused = true)]
async fn transient_errors_are_retried_and_rejections_are_not() {
    let broadcaster = TestBroadcaster::new();
    let recorder = broadcaster.events.recorder("tester");
    broadcaster.api.faults().fail_next(3, 503);
    recorder.event(
        &pod("web"),
        EventType::Normal,
        "Tested",
        "Test",
        "after an outage",
    );
    eventually(|| async { broadcaster.api.list::<EventsV1Event>().len() == 1 }).await;
    broadcaster.api.faults().fail_next(1, 403);
    recorder.event(&pod("web"), EventType::Normal, "Tested", "Test", "forbidden");
    eventually(|| async { broadcaster.events.recorder_metrics().of("failed") == 1 }).await;
    // After a rejection, the next occurrence creates an event instead of updating a missing one.
    recorder.event(&pod("web"), EventType::Normal, "Tested", "Test", "forbidden");
    let (api, _) = broadcaster.end(SECOND).await;
    let mut notes: Vec<_> = api
        .list::<EventsV1Event>()
        .into_iter()
        .filter_map(|event| event.note)
        .collect();
    notes.sort();
    assert_eq!(notes, ["after an outage", "forbidden"]);
}

#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again() {
    let broadcaster = TestBroadcaster::new();
    let recorder = broadcaster.events.recorder("tester");
    recorder.event(&pod("web"), EventType::Normal, "Tested", "Test", "again");
    let event = eventually(|| async { broadcaster.api.list::<EventsV1Event>().pop() }).await;
    broadcaster
        .api
        .remove::<EventsV1Event>("shop", event.metadata.name.as_deref().unwrap());
    recorder.event(&pod("web"), EventType::Normal, "Tested", "Test", "again");
    let (api, _) = broadcaster.end(SECOND).await;
    assert_eq!(
        api.list::<EventsV1Event>().pop().unwrap().series.unwrap().count,
        2
    );
}

#[tokio::test(start_paused = true)]
async fn stop_flushes_events_until_its_deadline() {
    let broadcaster = TestBroadcaster::new();
    broadcaster.api.faults().hang();
    let recorder = broadcaster.events.recorder("tester");
    recorder.event(&pod("web"), EventType::Normal, "Tested", "Test", "too late");
    recorder.event(&pod("db"), EventType::Normal, "Tested", "Test", "too late");
    let begin = Instant::now();
    let (api, _) = broadcaster.end(5 * SECOND).await;
    assert!(begin.elapsed() <= 5 * SECOND, "{:?}", begin.elapsed());
    assert!(api.list::<EventsV1Event>().is_empty());
}
