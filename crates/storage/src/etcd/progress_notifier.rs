//! Progress of the watch, and a write that forces progress when it is unknown.
//!
//! A watch receives no events for keys outside its range, so when another client of the same etcd advances the
//! revision, the watch cannot know that it is complete up to it. etcd's response to a progress
//! request does not help: in the versions up to early 2023, Debian's 3.4.23 among them, it overtakes
//! events that are still on their way (etcd's issue 15220), and for a year after that it might not arrive
//! at all (17507). So a key that the watch covers is written: once its event arrives, in line with the
//! others, so has everything before it. This works with every version, and moves the watches of all
//! processes on this store at once.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    RETRY_BACKOFF,
    connection::RetryPolicy,
    failure::EtcdFailure,
    messages::{PutRequest, PutResponse, method},
    session::EtcdSession,
};

/// How long to wait for an event before the revision is attributed to another client of etcd.
const GRACE: Duration = Duration::from_millis(10);
/// Minimum interval of writes. Two stores in one etcd advance each other's revision and would otherwise write endlessly.
const PAUSE: Duration = Duration::from_millis(50);

/// The requested and the reached revision of the watch.
pub(super) struct WatchProgress {
    /// The highest requested etcd revision.
    requested: watch::Sender<i64>,
    /// The etcd revision up to which all events were published.
    reached: watch::Sender<i64>,
}

/// The task that writes the key on demand. Stops when it is dropped.
pub(super) struct ProgressNotifier(JoinHandle<()>);

// --- WatchProgress ---

impl WatchProgress {
    pub(super) fn new(reached: i64) -> Self {
        Self {
            requested: watch::Sender::new(reached),
            reached: watch::Sender::new(reached),
        }
    }

    /// Requests progress up to an etcd revision.
    pub(super) fn ask(&self, etcd: i64) {
        self.requested.send_if_modified(|requested| {
            let further = etcd > *requested;
            *requested = etcd.max(*requested);
            further
        });
    }

    pub(super) fn requested(&self) -> i64 {
        *self.requested.borrow()
    }

    pub(super) fn reached(&self) -> i64 {
        *self.reached.borrow()
    }

    pub(super) fn reach(&self, etcd: i64) {
        self.reached.send_replace(etcd);
    }
}

/// Writes the progress key, which every watch covers.
pub(super) async fn write_progress_key(session: &EtcdSession) -> Result<(), EtcdFailure> {
    let request = PutRequest {
        key: session.keys.write_progress_key(),
        ..PutRequest::default()
    };
    let _: PutResponse = session
        .connection
        .call(method::PUT, request, RetryPolicy::Harmless, session.deadline())
        .await?;
    Ok(())
}

// --- ProgressNotifier ---

impl ProgressNotifier {
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub(super) fn start(session: Arc<EtcdSession>, progress: Arc<WatchProgress>) -> Self {
        Self(tokio::spawn(async move {
            let mut requested = progress.requested.subscribe();
            // The sender lives in `progress`, and so as long as this task.
            while requested.changed().await.is_ok() {
                let target = *requested.borrow_and_update();
                if !wait_until_reached(&progress, target, GRACE).await {
                    nudge(&session, &progress, target).await;
                    sleep(PAUSE).await;
                }
            }
        }))
    }

    pub(super) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for ProgressNotifier {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a revision with a timeout; returns whether it was reached.
async fn wait_until_reached(progress: &WatchProgress, target: i64, within: Duration) -> bool {
    let mut reached = progress.reached.subscribe();
    timeout(within, reached.wait_for(|reached| *reached >= target))
        .await
        .is_ok()
}

/// Writes the key, once with success, and waits until that has arrived. A watch that is broken sees it
/// when it has been resumed.
async fn nudge(session: &EtcdSession, progress: &WatchProgress, target: i64) {
    let mut delays = RETRY_BACKOFF.delays();
    while let Err(failure) = write_progress_key(session).await {
        // Where etcd is full no key can be written. Watches then stand still at the last event, which
        // is late but not wrong.
        let error = session.store_error(failure);
        tracing::debug!(%error, "failed to write the progress key of the watch");
        tokio::time::sleep(delays.next_delay()).await;
        if progress.reached() >= target {
            return;
        }
    }
    let mut reached = progress.reached.subscribe();
    // Ends with an error only when no process is left to wait for.
    let _ = reached.wait_for(|reached| *reached >= target).await;
}
