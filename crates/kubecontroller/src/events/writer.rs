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
    correlator::{Correlator, Verdict},
    record::{Count, Told},
    recorder::Figures,
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
    told: mpsc::Receiver<Told>,
    correlator: Correlator,
    figures: Figures,
}

/// What a request came to.
enum Answer {
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
    pub(super) fn new(client: Client, told: mpsc::Receiver<Told>, figures: Figures) -> Self {
        Writer {
            client,
            told,
            correlator: Correlator::new(),
            figures,
        }
    }

    /// Writes what is told until it is stopped, and then what was told so far.
    pub(super) async fn run(&mut self, stop: &Stop) {
        while let Some(Some(told)) = stop.unless_stopped(self.told.recv()).await {
            self.write(told, stop).await;
        }
        let flush = async {
            while let Ok(told) = self.told.try_recv() {
                self.write(told, stop).await;
            }
        };
        if stop.until_expired(flush).await.is_none() {
            warn!(left = self.told.len(), "there was no time to write all events");
        }
    }

    async fn write(&mut self, told: Told, stop: &Stop) {
        let (told, mut count, mut is_new) = match self.correlator.judge(told, Instant::now()) {
            Verdict::Filtered => return self.figures.count("filtered"),
            Verdict::First(told, count) => (told, count, true),
            Verdict::Again(told, count) => (told, count, false),
        };
        let mut pause = FIRST_PAUSE;
        for left in (0..TRIES).rev() {
            let answer = timeout(PATIENCE, self.send(&told, &count, is_new)).await;
            match answer.unwrap_or_else(|_| Answer::Later("no answer".to_owned())) {
                Answer::Written => return self.figures.count("written"),
                // It went away in the meantime: events do, after an hour.
                Answer::Missing => is_new = true,
                // Ours, if an answer was lost; somebody else's, if not. A second event is better than none.
                Answer::Taken => self.correlator.rename(&told, &mut count),
                Answer::Later(why) if left > 0 => {
                    debug!(why, event = count.name, "cannot write an event yet");
                    let pause_now = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if stop.until_expired(sleep(pause_now)).await.is_none() {
                        break;
                    }
                }
                Answer::Later(why) | Answer::Refused(why) => {
                    warn!(
                        why,
                        reason = told.reason,
                        note = told.note,
                        "cannot write an event"
                    );
                    break;
                }
            }
        }
        self.figures.count("failed");
        self.correlator.forget(&told);
    }

    async fn send(&self, told: &Told, count: &Count, is_new: bool) -> Answer {
        let namespace = told.namespace();
        let create = PostParams::default();
        let patch = Patch::Merge(told.patch(count));
        let change = PatchParams::default();
        let done = match told.style {
            EventApi::Core => {
                let events: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
                if is_new {
                    events.create(&create, &told.core(count)).await.map(drop)
                } else {
                    events.patch(&count.name, &change, &patch).await.map(drop)
                }
            }
            EventApi::Events => {
                let events: Api<NewEvent> = Api::namespaced(self.client.clone(), namespace);
                if is_new {
                    events.create(&create, &told.newer(count)).await.map(drop)
                } else {
                    events.patch(&count.name, &change, &patch).await.map(drop)
                }
            }
        };
        match done {
            Ok(()) => Answer::Written,
            Err(kube::Error::Api(status)) => match status.code {
                404 if !is_new => Answer::Missing,
                409 if is_new => Answer::Taken,
                429 | 500.. => Answer::Later(status.message.clone()),
                _ => Answer::Refused(status.message.clone()),
            },
            Err(error) => Answer::Later(error.to_string()),
        }
    }
}
