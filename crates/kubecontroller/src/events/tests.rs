//! What recorders promise.

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
        events::v1::Event as NewEvent,
    },
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use tokio::{task::JoinSet, time::Instant};

use super::{
    EventApi, EventBroadcaster, EventType,
    correlator::{CorrelationDecision, Correlator},
    record::{Count, EventAttributes},
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

/// What becomes of it: a new event (`+`), a higher count (`2`) or nothing (`-`), and the text.
fn fate(correlator: &mut Correlator, event: EventAttributes, now: Instant) -> (String, String) {
    match correlator.judge(event, now) {
        CorrelationDecision::Filtered => ("-".to_owned(), String::new()),
        CorrelationDecision::First(event, _) => ("+".to_owned(), event.note),
        CorrelationDecision::Again(event, Count { times, .. }) => (times.to_string(), event.note),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_again_is_counted() {
    let (mut correlator, now) = (Correlator::new(), Instant::now());
    let fates = ["a", "a", "b", "a"].map(|note| fate(&mut correlator, event("web", "Failed", note), now).0);
    assert_eq!(fates, ["+", "2", "+", "3"]);
    // Another object, another reason, another action: another event.
    assert_eq!(fate(&mut correlator, event("db", "Failed", "a"), now).0, "+");
    assert_eq!(fate(&mut correlator, event("web", "Other", "a"), now).0, "+");
}

#[tokio::test(start_paused = true)]
async fn ten_texts_with_one_reason_are_combined_until_it_was_quiet_for_ten_minutes() {
    let (mut correlator, mut now) = (Correlator::new(), Instant::now());
    for number in 1..=9 {
        assert_eq!(
            fate(
                &mut correlator,
                event("web", "Failed", &format!("try {number}")),
                now
            )
            .0,
            "+"
        );
    }
    let tenth = fate(&mut correlator, event("web", "Failed", "try 10"), now);
    assert_eq!(
        tenth,
        (
            "+".to_owned(),
            "(combined from similar events): try 10".to_owned()
        )
    );
    let next = fate(&mut correlator, event("web", "Failed", "try 11"), now);
    assert_eq!(
        next,
        (
            "2".to_owned(),
            "(combined from similar events): try 11".to_owned()
        )
    );
    assert_eq!(
        fate(&mut correlator, event("web", "Other", "try 12"), now).1,
        "try 12"
    );
    now += Duration::from_secs(601);
    assert_eq!(
        fate(&mut correlator, event("web", "Failed", "try 13"), now).1,
        "try 13"
    );
}

#[tokio::test(start_paused = true)]
async fn a_source_tells_25_events_about_an_object_and_then_one_every_five_minutes() {
    let (mut correlator, mut now) = (Correlator::new(), Instant::now());
    let mut fates = |name: &str, times: usize, now| {
        let fates = (0..times).filter(|_| fate(&mut correlator, event(name, "Failed", "a"), now).0 != "-");
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
        let CorrelationDecision::First(_, count) = correlator.judge(event(object, "Failed", &note), now)
        else {
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

// --- with an API ---

/// Events that are being written to an API, until the stop.
struct Telling {
    api: FakeApi,
    events: Arc<EventBroadcaster>,
    stop: Stop,
    running: JoinSet<()>,
}

impl Telling {
    fn new() -> Self {
        let api = FakeApi::new();
        let time = AtomicI64::new(1_800_000_000);
        let clock = Clock::new(move || Timestamp::from_second(time.fetch_add(1, Ordering::SeqCst)).unwrap());
        let events = Arc::new(EventBroadcaster::new(api.client()).clock(clock));
        let (stop, mut running) = (Stop::new(), JoinSet::new());
        let (writer, stopped) = (Arc::clone(&events), stop.clone());
        running.spawn(async move { writer.run(stopped).await.unwrap() });
        Telling {
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
async fn a_new_event_is_written_and_its_repetitions_become_a_series() {
    let telling = Telling::new();
    let recorder = telling.events.recorder("tester.example.com");
    for _ in 0..3 {
        recorder.event(&pod("web"), EventType::Warning, "Failed", "Start", "no image");
    }
    let (api, events) = telling.end(SECOND).await;
    let [event] = &api.list::<NewEvent>()[..] else {
        panic!("{:?}", api.list::<NewEvent>());
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
    assert_eq!(events.metrics().of("written"), 3);
}

#[tokio::test(start_paused = true)]
async fn upstreams_style_has_source_count_and_timestamps() {
    let telling = Telling::new();
    let recorder = telling
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
    let (api, _) = telling.end(SECOND).await;
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
async fn telling_never_waits_and_what_is_too_much_is_counted() {
    let telling = Telling::new();
    telling.api.faults().hang();
    let recorder = telling.events.recorder("tester");
    for number in 0..1500 {
        recorder.event(
            &pod(&format!("web-{number}")),
            EventType::Normal,
            "EventAttributes",
            "Tell",
            "something",
        );
    }
    assert_eq!(telling.events.metrics().of("dropped"), 500);
    telling.api.faults().clear();
    let (api, events) = telling.end(600 * SECOND).await;
    assert_eq!(api.list::<NewEvent>().len(), 1000);
    assert_eq!(events.metrics().of("written"), 1000);
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_and_what_is_refused_is_not() {
    let telling = Telling::new();
    let recorder = telling.events.recorder("tester");
    telling.api.faults().fail_next(3, 503);
    recorder.event(
        &pod("web"),
        EventType::Normal,
        "EventAttributes",
        "Tell",
        "after an outage",
    );
    eventually(|| async { telling.api.list::<NewEvent>().len() == 1 }).await;
    telling.api.faults().fail_next(1, 403);
    recorder.event(
        &pod("web"),
        EventType::Normal,
        "EventAttributes",
        "Tell",
        "forbidden",
    );
    eventually(|| async { telling.events.metrics().of("failed") == 1 }).await;
    // The next one is a new event, not a repetition of one that is not there.
    recorder.event(
        &pod("web"),
        EventType::Normal,
        "EventAttributes",
        "Tell",
        "forbidden",
    );
    let (api, _) = telling.end(SECOND).await;
    let mut notes: Vec<_> = api
        .list::<NewEvent>()
        .into_iter()
        .filter_map(|event| event.note)
        .collect();
    notes.sort();
    assert_eq!(notes, ["after an outage", "forbidden"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_has_expired_is_told_anew() {
    let telling = Telling::new();
    let recorder = telling.events.recorder("tester");
    recorder.event(&pod("web"), EventType::Normal, "EventAttributes", "Tell", "again");
    let event = eventually(|| async { telling.api.list::<NewEvent>().pop() }).await;
    telling
        .api
        .remove::<NewEvent>("shop", event.metadata.name.as_deref().unwrap());
    recorder.event(&pod("web"), EventType::Normal, "EventAttributes", "Tell", "again");
    let (api, _) = telling.end(SECOND).await;
    assert_eq!(api.list::<NewEvent>().pop().unwrap().series.unwrap().count, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_events_no_longer_than_its_deadline() {
    let telling = Telling::new();
    telling.api.faults().hang();
    let recorder = telling.events.recorder("tester");
    recorder.event(
        &pod("web"),
        EventType::Normal,
        "EventAttributes",
        "Tell",
        "too late",
    );
    recorder.event(
        &pod("db"),
        EventType::Normal,
        "EventAttributes",
        "Tell",
        "too late",
    );
    let begin = Instant::now();
    let (api, _) = telling.end(5 * SECOND).await;
    assert!(begin.elapsed() <= 5 * SECOND, "{:?}", begin.elapsed());
    assert!(api.list::<NewEvent>().is_empty());
}
