//! A watcher that collects its events.

use k3_storage::{Change, Event, EventBatch, Revision, WatchError, WatchStream};

use crate::store_ext::soon;

/// A watch, and what arrived of it and has not been taken yet.
pub(crate) struct Follower {
    events: WatchStream,
    /// Events that arrived with those that were requested.
    ahead: Vec<Event>,
    /// The bookmark of the newest batch, or where the watch began.
    reached: Revision,
}

// --- Follower ---

impl Follower {
    /// Of a watch that began after a revision.
    pub(crate) fn new(events: WatchStream, after: Revision) -> Self {
        Self {
            events,
            ahead: Vec::new(),
            reached: after,
        }
    }

    /// The next batch.
    pub(crate) async fn batch(&mut self) -> EventBatch {
        self.try_batch().await.unwrap()
    }

    /// The next batch, or why there is none.
    pub(crate) async fn try_batch(&mut self) -> Result<EventBatch, WatchError> {
        let batch = soon("a batch of a watch", self.events.next()).await?;
        self.reached = batch.revision;
        Ok(batch)
    }

    /// The next `count` events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<Event> {
        while self.ahead.len() < count {
            let batch = self.batch().await;
            self.ahead.extend(batch.events.iter().cloned());
        }
        self.ahead.drain(..count).collect()
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Event {
        self.take(1).await.remove(0)
    }

    /// All events up to the batch that reaches `revision`.
    pub(crate) async fn upto(&mut self, revision: Revision) -> Vec<Event> {
        while self.reached < revision {
            let batch = self.batch().await;
            self.ahead.extend(batch.events.iter().cloned());
        }
        std::mem::take(&mut self.ahead)
    }

    /// Why the watch ends, once all that precedes is read.
    pub(crate) async fn end(&mut self) -> WatchError {
        loop {
            if let Err(error) = self.try_batch().await {
                return error;
            }
        }
    }
}

/// An event in short: its key and a sign for what happened, with the value.
pub(crate) fn brief(events: &[Event]) -> Vec<(&str, char, &[u8])> {
    events
        .iter()
        .map(|event| match &event.change {
            Change::Created(value) => (&*event.key, '+', &**value),
            Change::Updated(value) => (&*event.key, '=', &**value),
            Change::Deleted => (&*event.key, '-', &[][..]),
        })
        .collect()
}

/// The revisions of events.
pub(crate) fn revisions(events: &[Event]) -> Vec<Revision> {
    events.iter().map(|event| event.revision).collect()
}
