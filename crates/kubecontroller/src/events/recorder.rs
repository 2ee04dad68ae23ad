//! Who tells, and where it is gathered.

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
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::sync::{Mutex, mpsc};

use super::{EventApi, EventType, record::EventAttributes, writer::Writer};
use crate::{
    Clock,
    leader_election::hostname,
    manager::{BoxError, Runnable, Stop},
};

/// How many events wait to be written at most.
const QUEUE: usize = 1000;

/// Writes the events of a program, and makes the recorders that tell them.
pub struct EventBroadcaster {
    queue: mpsc::Sender<EventAttributes>,
    metrics: RecorderMetrics,
    clock: Clock,
    host: String,
    /// Locked for as long as the writer runs.
    writer: Mutex<Writer>,
}

/// Tells events of one component. Clones are the same.
#[derive(Clone)]
pub struct EventRecorder {
    component: String,
    host: String,
    /// Whether the host is told in the style that usually names none.
    names_host: bool,
    style: EventApi,
    queue: mpsc::Sender<EventAttributes>,
    metrics: RecorderMetrics,
    clock: Clock,
}

/// What became of the events that were event.
#[derive(Clone, Default)]
pub(super) struct RecorderMetrics {
    counts: Family<EventResultLabel, Counter>,
    /// As the sum of all, so that a flood is logged once in a while and not each time.
    dropped: Arc<AtomicU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventResultLabel {
    result: &'static str,
}

// --- EventBroadcaster ---

impl EventBroadcaster {
    /// Events that are written by that client, once this [runs](Runnable::run).
    pub fn new(client: Client) -> Self {
        let (queue, event) = mpsc::channel(QUEUE);
        let metrics = RecorderMetrics::default();
        EventBroadcaster {
            queue,
            metrics: metrics.clone(),
            clock: Clock::system(),
            host: hostname(),
            writer: Mutex::new(Writer::new(client, event, metrics)),
        }
    }

    /// With another clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Counts what becomes of events there, as `events_recorded_total` by `result`: `written`, `filtered` (too many about
    /// one object), `dropped` (too many at once) or `failed`.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Recorded events, by result";
        registry.register("events_recorded", help, self.metrics.counts.clone());
    }

    /// A recorder for a component, usually a controller.
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
    /// The same, written in that style.
    #[must_use]
    pub fn style(mut self, style: EventApi) -> Self {
        self.style = style;
        self
    }

    /// The same for another component.
    #[must_use]
    pub fn component(mut self, component: &str) -> Self {
        component.clone_into(&mut self.component);
        self
    }

    /// The same from a host of that name, which is told in either style: what agents of nodes write.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self.names_host = true;
        self
    }

    /// Tells that something happened to an object. `reason` is one word why, `action` one word what was done or tried,
    /// `note` a sentence for humans.
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

    /// The same, where a second object had a part in it.
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
            // Upstream's controllers name no host.
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
        self.counts.get_or_create(&EventResultLabel { result }).inc();
    }

    fn dropped(&self) {
        self.count("dropped");
        let before = self.dropped.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(1000) {
            tracing::warn!(
                left_out = before + 1,
                "more events came than are written in that time, and some are left out; nothing else waits for them"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn of(&self, result: &'static str) -> u64 {
        self.counts.get_or_create(&EventResultLabel { result }).get()
    }
}

#[cfg(test)]
impl EventBroadcaster {
    pub(super) fn metrics(&self) -> &RecorderMetrics {
        &self.metrics
    }
}
