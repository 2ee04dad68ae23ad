//! EventBroadcaster become requests.

use std::time::Duration;

use k8s_openapi::api::{core::v1::Event as CoreEvent, events::v1::Event as NewEvent};
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
    record::{Count, EventAttributes},
    recorder::RecorderMetrics,
};
use crate::manager::Stop;

/// How often an event is tried while the server does not answer.
const TRIES: u32 = 12;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Writer {
    client: Client,
    event: mpsc::Receiver<EventAttributes>,
    correlator: Correlator,
    metrics: RecorderMetrics,
}

/// What a request came to.
enum WriteResult {
    Written,
    /// There is an event of that name.
    Taken,
    /// There is none of that name to be changed.
    Missing,
    /// No answer, or none that counts: worth another try.
    Later(String),
    /// A no.
    Refused(String),
}

// --- Writer ---

impl Writer {
    pub(super) fn new(
        client: Client,
        event: mpsc::Receiver<EventAttributes>,
        metrics: RecorderMetrics,
    ) -> Self {
        Writer {
            client,
            event,
            correlator: Correlator::new(),
            metrics,
        }
    }

    /// Writes what is told until it is stopped, and then what was told so far.
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
            warn!(left = self.event.len(), "there was no time to write all events");
        }
    }

    async fn write(&mut self, event: EventAttributes, stop: &Stop) {
        let (event, mut count, mut is_new) = match self.correlator.judge(event, Instant::now()) {
            CorrelationDecision::Filtered => return self.metrics.count("filtered"),
            CorrelationDecision::First(event, count) => (event, count, true),
            CorrelationDecision::Again(event, count) => (event, count, false),
        };
        let mut pause = FIRST_PAUSE;
        for left in (0..TRIES).rev() {
            let answer = timeout(PATIENCE, self.send(&event, &count, is_new)).await;
            match answer.unwrap_or_else(|_| WriteResult::Later("no answer".to_owned())) {
                WriteResult::Written => return self.metrics.count("written"),
                // It went away in the meantime: events do, after an hour.
                WriteResult::Missing => is_new = true,
                // Ours, if an answer was lost; somebody else's, if not. A second event is better than none.
                WriteResult::Taken => self.correlator.rename(&event, &mut count),
                WriteResult::Later(why) if left > 0 => {
                    debug!(why, event = count.name, "cannot write an event yet");
                    let pause_now = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if stop.until_expired(sleep(pause_now)).await.is_none() {
                        break;
                    }
                }
                WriteResult::Later(why) | WriteResult::Refused(why) => {
                    warn!(
                        why,
                        reason = event.reason,
                        note = event.note,
                        "cannot write an event"
                    );
                    break;
                }
            }
        }
        self.metrics.count("failed");
        self.correlator.forget(&event);
    }

    async fn send(&self, event: &EventAttributes, count: &Count, is_new: bool) -> WriteResult {
        let namespace = event.namespace();
        let create = PostParams::default();
        let patch = Patch::Merge(event.patch(count));
        let change = PatchParams::default();
        let done = match event.style {
            EventApi::Core => {
                let events: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
                if is_new {
                    events.create(&create, &event.core(count)).await.map(drop)
                } else {
                    events.patch(&count.name, &change, &patch).await.map(drop)
                }
            }
            EventApi::Events => {
                let events: Api<NewEvent> = Api::namespaced(self.client.clone(), namespace);
                if is_new {
                    events.create(&create, &event.newer(count)).await.map(drop)
                } else {
                    events.patch(&count.name, &change, &patch).await.map(drop)
                }
            }
        };
        match done {
            Ok(()) => WriteResult::Written,
            Err(kube::Error::Api(status)) => match status.code {
                404 if !is_new => WriteResult::Missing,
                409 if is_new => WriteResult::Taken,
                429 | 500.. => WriteResult::Later(status.message.clone()),
                _ => WriteResult::Refused(status.message.clone()),
            },
            Err(error) => WriteResult::Later(error.to_string()),
        }
    }
}
