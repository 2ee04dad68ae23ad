//! Event recorders, and the broadcaster that writes their events.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use tokio::sync::{Mutex, mpsc};

use super::{EventApi, EventType, record::EventAttributes, writer::EventWriter};
use crate::{
    Clock,
    leader_election::hostname,
    manager::{BoxError, Runnable, Stop},
    metrics::{MetricDesc, Metrics},
};

/// The capacity of the queue of events that wait to be written.
const QUEUE: usize = 1000;

/// Writes the events of a program, and creates its recorders.
// upstream: staging/src/k8s.io/client-go/tools/events/event_broadcaster.go eventBroadcasterImpl
pub struct EventBroadcaster {
    queue: mpsc::Sender<EventAttributes>,
    metrics: RecorderMetrics,
    clock: Clock,
    host: String,
    /// Locked while the broadcaster runs.
    writer: Mutex<EventWriter>,
}

/// Records events of one component. Clones share the queue of the broadcaster.
// upstream: staging/src/k8s.io/client-go/tools/events/event_recorder.go recorderImpl
#[derive(Clone)]
pub struct EventRecorder {
    component: String,
    host: String,
    /// Whether `v1` events carry the host too.
    names_host: bool,
    style: EventApi,
    queue: mpsc::Sender<EventAttributes>,
    metrics: RecorderMetrics,
    clock: Clock,
}

/// The results of recorded events.
#[derive(Clone, Default)]
pub(super) struct RecorderMetrics {
    metrics: Metrics,
    /// The number of dropped events, so that only every thousandth is logged.
    dropped: Arc<AtomicU64>,
}

const RECORDED: MetricDesc = MetricDesc::counter(
    "events_recorded_total",
    "Recorded events, by result.",
    &["result"],
);

// --- EventBroadcaster ---

impl EventBroadcaster {
    /// Creates a broadcaster, which writes events while it [runs](Runnable::run).
    pub fn new(client: Client) -> Self {
        let (queue, event) = mpsc::channel(QUEUE);
        let metrics = RecorderMetrics::default();
        EventBroadcaster {
            queue,
            metrics: metrics.clone(),
            clock: Clock::system(),
            host: hostname(),
            writer: Mutex::new(EventWriter::new(client, event, metrics)),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Counts events in `events_recorded_total` of these metrics, with the label `result`: `written`, `filtered` (rate limit
    /// of an object), `dropped` (queue full) or `failed`. To be called before recorders are created.
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        let metrics = RecorderMetrics {
            metrics: metrics.clone(),
            ..RecorderMetrics::default()
        };
        self.writer.get_mut().metrics = metrics.clone();
        self.metrics = metrics;
        self
    }

    /// Creates a recorder for a component, usually a controller.
    pub fn recorder(&self, component: &str) -> EventRecorder {
        EventRecorder {
            component: component.to_owned(),
            host: self.host.clone(),
            names_host: false,
            style: EventApi::default(),
            queue: self.queue.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock.clone(),
        }
    }
}

impl Runnable for EventBroadcaster {
    fn name(&self) -> &'static str {
        "events"
    }

    fn leader_only(&self) -> bool {
        false
    }

    fn run(&self, stop: Stop) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            self.writer.lock().await.run(&stop).await;
            Ok(())
        })
    }
}

impl fmt::Debug for EventBroadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = QUEUE - self.queue.capacity();
        f.debug_struct("EventBroadcaster")
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}

// --- EventRecorder ---

impl EventRecorder {
    /// Sets the API in which events are written.
    #[must_use]
    pub fn style(mut self, style: EventApi) -> Self {
        self.style = style;
        self
    }

    /// Sets another component.
    #[must_use]
    pub fn component(mut self, component: &str) -> Self {
        component.clone_into(&mut self.component);
        self
    }

    /// Sets the host, which is then part of events in both APIs. Node agents use it.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self.names_host = true;
        self
    }

    /// Records an event about an object. `reason` is one CamelCase word, `action` one word for what was done or attempted,
    /// `note` a human-readable sentence.
    pub fn event(
        &self,
        regarding: &ObjectReference,
        kind: EventType,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        self.event_with(regarding, None, kind, reason, action, note);
    }

    /// Records an event with a second, related object.
    pub fn event_with(
        &self,
        regarding: &ObjectReference,
        related: Option<&ObjectReference>,
        kind: EventType,
        reason: &str,
        action: &str,
        note: impl Into<String>,
    ) {
        let instance = match self.style {
            EventApi::Events => format!("{}-{}", self.component, self.host),
            EventApi::Core if self.names_host => self.host.clone(),
            // The controllers of kube-controller-manager set no host.
            EventApi::Core => String::new(),
        };
        let event = EventAttributes {
            style: self.style,
            component: self.component.clone(),
            instance,
            regarding: regarding.clone(),
            related: related.cloned(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note: note.into(),
            at: self.clock.now(),
        };
        if self.queue.try_send(event).is_err() {
            self.metrics.dropped();
        }
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventRecorder").field(&self.component).finish()
    }
}

// --- RecorderMetrics ---

impl RecorderMetrics {
    pub(super) fn count(&self, result: &'static str) {
        self.metrics.increment(&RECORDED, &[result], 1);
    }

    fn dropped(&self) {
        self.count("dropped");
        let before = self.dropped.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(1000) {
            tracing::warn!(dropped = before + 1, "dropped events because the queue is full");
        }
    }

    #[cfg(test)]
    pub(super) fn of(&self, result: &'static str) -> u64 {
        self.metrics.count(&RECORDED, &[result])
    }
}

#[cfg(test)]
impl EventBroadcaster {
    pub(super) fn recorder_metrics(&self) -> &RecorderMetrics {
        &self.metrics
    }
}
