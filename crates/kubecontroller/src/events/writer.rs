//! Writes correlated events to the API server.

use std::time::Duration;

use k8s_openapi::api::{core::v1::Event as CoreEvent, events::v1::Event as EventsV1Event};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, warn};

use super::{
    EventApi,
    correlator::{CorrelationDecision, Correlator},
    record::{EventAttributes, EventCount},
    recorder::RecorderMetrics,
};
use crate::{Backoff, manager::Stop};

/// How often a write is tried while the API server does not respond. client-go tries 12 times too.
const TRIES: u32 = 12;
const BACKOFF: Backoff = Backoff::exponential(Duration::from_millis(500), Duration::from_secs(10));
/// The timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct EventWriter {
    client: Client,
    event: mpsc::Receiver<EventAttributes>,
    correlator: Correlator,
    pub(super) metrics: RecorderMetrics,
}

/// A request for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventWrite {
    /// The first occurrence.
    Create,
    /// Another one: the number of occurrences in the stored event changes.
    Count,
}

/// The result of a request.
enum EventWriteResult {
    Written,
    /// An event with this name exists.
    AlreadyExists,
    /// The event to patch does not exist.
    NotFound,
    /// A timeout or a transient error.
    Retry(String),
    /// A final error.
    Rejected(String),
}

// --- EventWriter ---

impl EventWriter {
    pub(super) fn new(
        client: Client,
        event: mpsc::Receiver<EventAttributes>,
        metrics: RecorderMetrics,
    ) -> Self {
        EventWriter {
            client,
            event,
            correlator: Correlator::new(),
            metrics,
        }
    }

    /// Writes events until it is stopped, and then flushes the queue.
    pub(super) async fn run(&mut self, stop: &Stop) {
        while let Some(Some(event)) = stop.unless_stopped(self.event.recv()).await {
            self.write(event, stop).await;
        }
        let flush = async {
            while let Ok(event) = self.event.try_recv() {
                self.write(event, stop).await;
            }
        };
        if stop.until_expired(flush).await.is_none() {
            warn!(left = self.event.len(), "stopped before all events were written");
        }
    }

    // upstream: staging/src/k8s.io/client-go/tools/record/event.go recordToSink
    async fn write(&mut self, event: EventAttributes, stop: &Stop) {
        let (event, mut count, mut write) = match self.correlator.correlate(event, Instant::now()) {
            CorrelationDecision::Filtered => return self.metrics.count("filtered"),
            CorrelationDecision::First(event, count) => (event, count, EventWrite::Create),
            CorrelationDecision::Again(event, count) => (event, count, EventWrite::Count),
        };
        let mut delays = BACKOFF.delays();
        for left in (0..TRIES).rev() {
            let response = timeout(REQUEST_TIMEOUT, self.send(&event, &count, write)).await;
            match response.unwrap_or_else(|_| EventWriteResult::Retry("timeout".to_owned())) {
                EventWriteResult::Written => return self.metrics.count("written"),
                // Events expire after an hour by default.
                EventWriteResult::NotFound => write = EventWrite::Create,
                // Either our own event, if a response was lost, or another one. A duplicate is better than a lost event.
                EventWriteResult::AlreadyExists => self.correlator.rename(&event, &mut count),
                EventWriteResult::Retry(why) if left > 0 => {
                    debug!(
                        error = why,
                        event = count.name,
                        "failed to write event; will retry"
                    );
                    if stop.until_expired(sleep(delays.next_delay())).await.is_none() {
                        break;
                    }
                }
                EventWriteResult::Retry(why) | EventWriteResult::Rejected(why) => {
                    warn!(
                        error = why,
                        reason = event.reason,
                        note = event.note,
                        "failed to write event"
                    );
                    break;
                }
            }
        }
        self.metrics.count("failed");
        self.correlator.forget(&event);
    }

    async fn send(&self, event: &EventAttributes, count: &EventCount, write: EventWrite) -> EventWriteResult {
        let namespace = event.namespace();
        let create = PostParams::default();
        let patch = Patch::Merge(event.patch(count));
        let change = PatchParams::default();
        let done = match event.style {
            EventApi::Core => {
                let events: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
                match write {
                    EventWrite::Create => events.create(&create, &event.core(count)).await.map(drop),
                    EventWrite::Count => events.patch(&count.name, &change, &patch).await.map(drop),
                }
            }
            EventApi::Events => {
                let events: Api<EventsV1Event> = Api::namespaced(self.client.clone(), namespace);
                match write {
                    EventWrite::Create => events.create(&create, &event.events_v1(count)).await.map(drop),
                    EventWrite::Count => events.patch(&count.name, &change, &patch).await.map(drop),
                }
            }
        };
        match done {
            Ok(()) => EventWriteResult::Written,
            Err(kube::Error::Api(status)) => match status.code {
                404 if write == EventWrite::Count => EventWriteResult::NotFound,
                409 if write == EventWrite::Create => EventWriteResult::AlreadyExists,
                429 | 500.. => EventWriteResult::Retry(status.message.clone()),
                _ => EventWriteResult::Rejected(status.message.clone()),
            },
            Err(error) => EventWriteResult::Retry(error.to_string()),
        }
    }
}
