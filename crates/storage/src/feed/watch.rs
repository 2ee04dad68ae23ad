//! A watch: it reads the history first, then the feed, and the history again whenever it falls behind.

use std::sync::Arc;

use async_trait::async_trait;

use super::dispatch::{EventFeed, FeedSubscription};
use crate::{Event, EventBatch, Prefix, Revision, StoreError, WatchError, WatchSource};

/// Number of events per read of the history.
const CHUNK: usize = 1000;

/// Access to the past events of a backend.
#[async_trait]
pub(crate) trait WatchHistory: Send + Sync {
    /// Returns up to `limit` events with the prefix and revisions above `after` and up to `upto`, and the revision up to which they
    /// are complete: `upto`, unless the limit was reached.
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError>;
}

/// A watch over a feed and the history behind it.
pub(crate) struct FeedWatch<H> {
    history: Arc<H>,
    feed: Arc<EventFeed>,
    prefix: Prefix,
    /// Everything up to here has been returned from `next`.
    delivered: Revision,
    /// `None` at the beginning and whenever the watcher fell behind.
    live: Option<FeedSubscription>,
}

// --- FeedWatch ---

impl<H: WatchHistory> FeedWatch<H> {
    /// Starts a watch after revision `after`. It subscribes immediately, so events before the first `next` are queued.
    pub(crate) fn new(history: Arc<H>, feed: Arc<EventFeed>, prefix: &Prefix, after: Revision) -> Self {
        let live = feed.subscribe(prefix).ok();
        Self {
            history,
            feed,
            prefix: prefix.clone(),
            delivered: after,
            live,
        }
    }

    async fn replay(&mut self, upto: Revision) -> Result<EventBatch, WatchError> {
        let (events, reached) = self
            .history
            .past(&self.prefix, self.delivered, upto, CHUNK)
            .await?;
        self.delivered = reached;
        Ok(EventBatch {
            events: events.into(),
            revision: reached,
        })
    }
}

#[async_trait]
impl<H: WatchHistory> WatchSource for FeedWatch<H> {
    async fn next(&mut self) -> Result<EventBatch, WatchError> {
        loop {
            let live = if let Some(live) = &mut self.live {
                live
            } else {
                let live = self
                    .feed
                    .subscribe(&self.prefix)
                    .map_err(|_| StoreError::Closed)?;
                self.live.insert(live)
            };
            if self.delivered < live.position {
                let upto = live.position;
                return self.replay(upto).await;
            }
            match live.batches.recv().await {
                // A watch may begin after a revision that the feed has not reached yet, when another
                // process has made it: what it has seen must not arrive again.
                Some(batch) if batch.revision <= self.delivered => {}
                Some(batch) => {
                    let batch = batch.after(self.delivered);
                    self.delivered = batch.revision;
                    return Ok(batch);
                }
                None => self.live = None,
            }
        }
    }
}

// --- EventBatch ---

impl EventBatch {
    /// The batch without events up to `revision`.
    fn after(self, revision: Revision) -> Self {
        match self.events.first() {
            Some(first) if first.revision <= revision => {
                let events = self
                    .events
                    .iter()
                    .filter(|event| event.revision > revision)
                    .cloned()
                    .collect();
                Self { events, ..self }
            }
            _ => self,
        }
    }
}
