//! Past events, for a watch that is behind.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{sync::Mutex, time::timeout};

use super::{
    RETRY_BACKOFF,
    progress_notifier::write_progress_key,
    read,
    recent_events::cut,
    session::EtcdSession,
    state::EtcdStoreState,
    store::WatchSender,
    watcher::{self, EtcdWatchError, EtcdWatcher},
};
use crate::{Event, Prefix, ReadError, Revision, StoreError, WatchError, feed::WatchHistory};

/// etcd looks into its history every tenth of a second. When nothing arrives for longer, the last event
/// under our keys may lie before the revision that is to be reached.
const GRACE: Duration = Duration::from_millis(300);

/// The history of the store, as one watch reads it.
pub(super) struct HistoryReplay {
    session: Arc<EtcdSession>,
    watch_sender: Arc<WatchSender>,
    /// The stream that is being read, if any. It stays open from one page of events to the next, and
    /// when the reader disconnects in the middle of one.
    replay_buffer: Mutex<Option<ReplayBuffer>>,
}

struct ReplayBuffer {
    watcher: EtcdWatcher,
    state: EtcdStoreState,
    /// Events above `from` that have been received but not taken.
    events: VecDeque<Event>,
    from: Revision,
    /// How far the events reach.
    reached: Revision,
    /// Whether the watched keys have been touched to see the end.
    progress_key_written: bool,
}

// --- HistoryReplay ---

impl HistoryReplay {
    pub(super) fn new(session: Arc<EtcdSession>, watch_sender: Arc<WatchSender>) -> Self {
        Self {
            session,
            watch_sender,
            replay_buffer: Mutex::new(None),
        }
    }

    async fn read(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let mut slot = self.replay_buffer.lock().await;
        let mut delays = RETRY_BACKOFF.delays();
        loop {
            let kept = slot.take().filter(|replay_buffer| replay_buffer.from == after);
            match self.page(&mut slot, kept, prefix, after, upto, limit).await {
                Ok(found) => return Ok(found),
                // A watch outlives the members that serve it.
                Err(WatchError::Store(StoreError::Unavailable { .. })) => {
                    *slot = None;
                    tokio::time::sleep(delays.next_delay()).await;
                }
                Err(error) => {
                    *slot = None;
                    return Err(error);
                }
            }
        }
    }

    async fn page(
        &self,
        slot: &mut Option<ReplayBuffer>,
        kept: Option<ReplayBuffer>,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let replay_buffer = match kept {
            Some(replay_buffer) => slot.insert(replay_buffer),
            None => slot.insert(ReplayBuffer::open(&self.session, after).await?),
        };
        replay_buffer.wind(&self.session, prefix, upto, limit).await?;
        // etcd may have compacted what we were reading. See the pump for why this proves it has not.
        read::prove(&self.session, after).await?;
        let (events, reached) = replay_buffer.take(upto, limit);
        if reached == upto {
            *slot = None;
        }
        Ok((events, reached))
    }
}

#[async_trait]
impl WatchHistory for HistoryReplay {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        self.session.check_open()?;
        if let Some(found) = self.watch_sender.recent().past(prefix, after, upto, limit) {
            return Ok(found);
        }
        tokio::select! {
            found = self.read(prefix, after, upto, limit) => found,
            () = self.session.until_closed() => Err(StoreError::Closed.into()),
        }
    }
}

// --- HistoryReplay ---

impl ReplayBuffer {
    async fn open(session: &EtcdSession, after: Revision) -> Result<Self, WatchError> {
        let state = read::prove(session, after).await?;
        let watcher = EtcdWatcher::open(session, session.keys.all(), state.etcd(after))
            .await
            .map_err(|error| explain(session, &state, after, error))?;
        Ok(Self {
            watcher,
            state,
            events: VecDeque::new(),
            from: after,
            reached: after,
            progress_key_written: false,
        })
    }

    /// Receives until there is a page, or everything.
    async fn wind(
        &mut self,
        session: &EtcdSession,
        prefix: &Prefix,
        upto: Revision,
        limit: usize,
    ) -> Result<(), WatchError> {
        while self.reached < upto && self.events.len() <= limit {
            match timeout(GRACE, self.watcher.next(session)).await {
                Ok(Ok(delivery)) => {
                    let events = delivery
                        .events
                        .into_iter()
                        .filter_map(|event| watcher::event(&session.keys, &self.state, event))
                        .filter(|event| prefix.contains(&event.key));
                    self.events.extend(events);
                    self.reached = self.state.revision(delivery.upto);
                }
                Ok(Err(error)) => return Err(explain(session, &self.state, self.from, error)),
                Err(_) if self.progress_key_written => {}
                Err(_) => {
                    write_progress_key(session)
                        .await
                        .map_err(|failure| session.store_error(failure))?;
                    self.progress_key_written = true;
                }
            }
        }
        Ok(())
    }

    /// Hands out a page.
    fn take(&mut self, upto: Revision, limit: usize) -> (Vec<Event>, Revision) {
        let upto = upto.min(self.reached);
        let found = self.events.iter().take_while(|event| event.revision <= upto);
        let (events, reached) = cut(found, upto, limit);
        self.events.drain(..events.len());
        self.from = reached;
        (events, reached)
    }
}

fn explain(
    session: &EtcdSession,
    state: &EtcdStoreState,
    after: Revision,
    error: EtcdWatchError,
) -> WatchError {
    match error {
        EtcdWatchError::Compacted(etcd) => WatchError::Compacted {
            after,
            oldest: state.revision(etcd).max(state.floor()),
        },
        EtcdWatchError::Lost(failure) => session.store_error(failure).into(),
    }
}

impl From<ReadError> for WatchError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Compacted { requested, oldest } => Self::Compacted {
                after: requested,
                oldest,
            },
            ReadError::Future { requested, current } => Self::Future {
                after: requested,
                current,
            },
            ReadError::Store(error) => Self::Store(error),
        }
    }
}
