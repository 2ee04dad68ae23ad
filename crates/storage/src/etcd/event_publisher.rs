//! Publishes the events of a single etcd watch to all watches of this process.
//!
//! Guarantees: events are published exactly once, in order, in complete revisions, also after broken streams and failed
//! members. If events were compacted before they arrived, every watch falls back to the history and fails there.

use std::sync::Arc;

use k3_task::BackoffDelays;
use tokio::task::JoinHandle;

use super::{
    RETRY_BACKOFF,
    keyspace::Role,
    messages::WatchEvent,
    progress_notifier::WatchProgress,
    session::EtcdSession,
    state::{EtcdStorePhase, EtcdStoreState},
    store::WatchSender,
    watcher::{self, EtcdWatchError, EtcdWatcher, WatchDelivery},
};
use crate::Event;

/// The running watch. Dropping it stops it.
pub(super) struct EventPublisher(JoinHandle<()>);

struct PublisherTask {
    session: Arc<EtcdSession>,
    watch_sender: Arc<WatchSender>,
    progress: Arc<WatchProgress>,
    /// The state at `position`, not the newest one, because it determines how the next events are interpreted.
    state: EtcdStoreState,
    /// The etcd revision up to which all events were published.
    position: i64,
    /// The highest requested revision of `progress` for which all watches received a bookmark.
    announced: i64,
}

// --- EventPublisher ---

impl EventPublisher {
    /// Starts to publish the events after `position`, a revision of etcd at which `state` was current.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub(super) fn start(
        session: Arc<EtcdSession>,
        watch_sender: Arc<WatchSender>,
        progress: Arc<WatchProgress>,
        state: EtcdStoreState,
        position: i64,
    ) -> Self {
        let run = PublisherTask {
            session,
            watch_sender,
            progress,
            state,
            position,
            announced: position,
        };
        Self(tokio::spawn(run.forever()))
    }

    pub(super) fn stop(&self) {
        self.0.abort();
    }
}

impl Drop for EventPublisher {
    fn drop(&mut self) {
        self.stop();
    }
}

// --- PublisherTask ---

impl PublisherTask {
    async fn forever(mut self) {
        let mut delays = RETRY_BACKOFF.delays();
        loop {
            match self.follow(&mut delays).await {
                EtcdWatchError::Compacted(etcd) => {
                    let position = self.position;
                    tracing::warn!(
                        position,
                        compacted = etcd,
                        "events were compacted before they were received"
                    );
                    self.skip(&mut delays).await;
                }
                EtcdWatchError::Lost(failure) => {
                    let error = self.session.store_error(failure);
                    tracing::warn!(%error, "the watch of etcd broke, will resume it");
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }

    /// Publishes events until the stream breaks.
    async fn follow(&mut self, delays: &mut BackoffDelays) -> EtcdWatchError {
        let opened = EtcdWatcher::open(&self.session, self.session.keys.all(), self.position).await;
        let mut watcher = match opened {
            Ok(watcher) => watcher,
            Err(error) => return error,
        };
        // What preceded the watch began is read from etcd's history. That begins above the
        // compacted revision, but etcd lets a watch begin at it, and then silently lacks what was
        // deleted there. Being able to read the revision before the first event, after the events have
        // arrive, proves that none was missing.
        let resumed_at = self.position;
        let mut proven = watcher.began_at <= resumed_at;
        // Soon, before the next compaction makes the proof impossible.
        self.progress.ask(watcher.began_at);
        loop {
            let delivery = match watcher.next(&self.session).await {
                Ok(delivery) => delivery,
                Err(error) => return error,
            };
            if !proven {
                match self.session.remembers(resumed_at).await {
                    Ok(true) => {}
                    Ok(false) => return EtcdWatchError::Compacted(delivery.upto),
                    Err(failure) => return EtcdWatchError::Lost(failure),
                }
                proven = delivery.upto >= watcher.began_at;
            }
            self.hand_out(delivery);
            delays.reset();
        }
    }

    fn hand_out(&mut self, delivery: WatchDelivery) {
        let mut events = Vec::new();
        let mut quiet = true;
        for event in delivery.events {
            let role = event.kv.as_ref().map(|kv| self.session.keys.role(&kv.key));
            if role == Some(Role::EtcdStoreState) {
                self.publish(&std::mem::take(&mut events));
                self.change_state(&event);
            } else if self.state.phase == EtcdStorePhase::Open
                && let Some(event) = watcher::event(&self.session.keys, &self.state, event)
            {
                quiet = false;
                events.push(event);
            }
        }
        self.publish(&events);
        self.position = delivery.upto;
        if self.state.phase == EtcdStorePhase::Open {
            self.watch_sender.feed.advance(self.state.revision(self.position));
        }
        self.progress.reach(self.position);
        // Only now is it certain that a caller that asks from here on sees `reached` itself.
        let requested = self.progress.requested();
        let wished = requested > self.announced && requested <= self.position;
        if quiet || wished {
            self.watch_sender.feed.announce();
            self.announced = self.position;
        }
    }

    fn publish(&self, events: &[Event]) {
        if !events.is_empty() {
            self.watch_sender.recent().extend(events);
            self.watch_sender.feed.publish(events);
        }
    }

    /// Reads the events that follow by the new state. When an import has finished, no event leads from
    /// what was before to what is now.
    fn change_state(&mut self, event: &WatchEvent) {
        match EtcdStoreState::parse(event.kv.as_ref()) {
            Ok(state) => {
                self.state = state;
                self.session.learn(state);
                if state.phase == EtcdStorePhase::Open {
                    self.watch_sender.jump(state.floor());
                }
            }
            // A caller that reads or writes next sees the same.
            Err(error) => tracing::error!(%error, "the state of the store cannot be read"),
        }
    }

    /// Continues at the current revision of the store. Watches that need compacted events end.
    async fn skip(&mut self, delays: &mut BackoffDelays) {
        loop {
            match self.session.read_state(self.session.deadline()).await {
                Ok((state, etcd)) => {
                    self.state = state;
                    self.position = etcd;
                    self.watch_sender.jump(state.revision(etcd));
                    self.progress.reach(etcd);
                    return;
                }
                Err(failure) => {
                    let error = self.session.store_error(failure);
                    tracing::warn!(%error, "cannot ask etcd where it is, will try again");
                    tokio::time::sleep(delays.next_delay()).await;
                }
            }
        }
    }
}
