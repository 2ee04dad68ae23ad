//! A store whose watches can be held up, and lose what was held up.

use std::sync::Arc;

use async_trait::async_trait;
use k3_storage::{
    DelegatingStore, EventBatch, Page, Prefix, Range, ReadError, Revision, Store, StoreError, WatchError,
    WatchSource, WatchStream,
};
use tokio::sync::watch;

/// A store whose watches can be held up, and lose what was held up.
pub(crate) struct GapStore {
    inner: Arc<dyn Store>,
    state: watch::Sender<WatchGap>,
}

#[derive(Clone, Copy)]
struct WatchGap {
    /// Whether watches are held up.
    watches_wait: bool,
    /// Whether ranges are held up.
    ranges_wait: bool,
    /// No watch begins or continues before this revision.
    lost_before: Revision,
}

struct GapEvents {
    inner: WatchStream,
    state: watch::Receiver<WatchGap>,
    /// Everything up to here was delivered.
    delivered: Revision,
}

// --- GapStore ---

impl GapStore {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let gap = WatchGap {
            watches_wait: false,
            ranges_wait: false,
            lost_before: Revision::new(0),
        };
        Arc::new(GapStore {
            inner,
            state: watch::Sender::new(gap),
        })
    }

    /// Holds watches up: the server lags.
    pub(crate) fn stall(&self) {
        self.state.send_modify(|gap| gap.watches_wait = true);
    }

    /// Lets watches go on: the server catches up.
    pub(crate) fn resume(&self) {
        self.state.send_modify(|gap| gap.watches_wait = false);
    }

    /// Holds ranges up, or lets them go on.
    pub(crate) fn hold_ranges(&self, wait: bool) {
        self.state.send_modify(|gap| gap.ranges_wait = wait);
    }

    /// Lets watches go on, after the store has compacted all that they missed.
    pub(crate) async fn lose_history(&self) {
        let current = self.inner.current_revision().await.unwrap();
        self.inner.compact(current).await.unwrap();
        self.state.send_modify(|gap| {
            gap.watches_wait = false;
            gap.lost_before = current;
        });
    }
}

#[async_trait]
impl DelegatingStore for GapStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        let mut state = self.state.subscribe();
        state.wait_for(|gap| !gap.ranges_wait).await.unwrap();
        self.inner.range(prefix, page).await
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        let oldest = self.state.borrow().lost_before;
        if after < oldest {
            return Err(WatchError::Compacted { after, oldest });
        }
        Ok(WatchStream::new(GapEvents {
            inner: self.inner.watch(prefix, after).await?,
            state: self.state.subscribe(),
            delivered: after,
        }))
    }
}

// --- GapEvents ---

#[async_trait]
impl WatchSource for GapEvents {
    async fn next(&mut self) -> Result<EventBatch, WatchError> {
        loop {
            let gap = *self.state.borrow_and_update();
            if self.delivered < gap.lost_before {
                return Err(WatchError::Compacted {
                    after: self.delivered,
                    oldest: gap.lost_before,
                });
            }
            if gap.watches_wait {
                self.state.changed().await.map_err(|_| StoreError::Closed)?;
                continue;
            }
            tokio::select! {
                biased;
                changed = self.state.changed() => changed.map_err(|_| StoreError::Closed)?,
                batch = self.inner.next() => {
                    let batch = batch?;
                    self.delivered = batch.revision;
                    return Ok(batch);
                }
            }
        }
    }
}
