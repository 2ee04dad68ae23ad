//! Past events, for a watch that is behind.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{sync::Mutex, time::timeout};

use super::{
    backoff::Backoff,
    beat::beat,
    read,
    recent::cut,
    session::Session,
    state::State,
    store::Outlet,
    tail::{self, Tail, TailError},
};
use crate::{Event, Prefix, ReadError, Revision, StoreError, WatchError, feed::History};

/// etcd looks into its history every tenth of a second. When nothing comes for longer, the last event
/// under our keys may lie before the revision that is to be reached.
const GRACE: Duration = Duration::from_millis(300);

/// The history of the store, as one watch reads it.
pub(super) struct Replay {
    session: Arc<Session>,
    outlet: Arc<Outlet>,
    /// The stream that is being read, if any. It stays open from one page of events to the next, and
    /// when the reader goes away in the middle of one.
    reel: Mutex<Option<Reel>>,
}

struct Reel {
    tail: Tail,
    state: State,
    /// WatchStream above `from` that have been received but not taken.
    events: VecDeque<Event>,
    from: Revision,
    /// How far the events reach.
    reached: Revision,
    /// Whether the watched keys have been touched to see the end.
    nudged: bool,
}

// --- Replay ---

impl Replay {
    pub(super) fn new(session: Arc<Session>, outlet: Arc<Outlet>) -> Self {
        Self {
            session,
            outlet,
            reel: Mutex::new(None),
        }
    }

    async fn read(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let mut slot = self.reel.lock().await;
        let mut backoff = Backoff::new();
        loop {
            let kept = slot.take().filter(|reel| reel.from == after);
            match self.page(&mut slot, kept, prefix, after, upto, limit).await {
                Ok(found) => return Ok(found),
                // A watch outlives the members that serve it.
                Err(WatchError::Store(StoreError::Unavailable { .. })) => {
                    *slot = None;
                    backoff.wait().await;
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
        slot: &mut Option<Reel>,
        kept: Option<Reel>,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let reel = match kept {
            Some(reel) => slot.insert(reel),
            None => slot.insert(Reel::open(&self.session, after).await?),
        };
        reel.wind(&self.session, prefix, upto, limit).await?;
        // etcd may have compacted what we were reading. See the pump for why this proves it has not.
        read::prove(&self.session, after).await?;
        let (events, reached) = reel.take(upto, limit);
        if reached == upto {
            *slot = None;
        }
        Ok((events, reached))
    }
}

#[async_trait]
impl History for Replay {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        self.session.check_open()?;
        if let Some(found) = self.outlet.recent().past(prefix, after, upto, limit) {
            return Ok(found);
        }
        tokio::select! {
            found = self.read(prefix, after, upto, limit) => found,
            () = self.session.until_closed() => Err(StoreError::Closed.into()),
        }
    }
}

// --- Reel ---

impl Reel {
    async fn open(session: &Session, after: Revision) -> Result<Self, WatchError> {
        let state = read::prove(session, after).await?;
        let tail = Tail::open(session, session.keys.all(), state.etcd(after))
            .await
            .map_err(|error| explain(session, &state, after, error))?;
        Ok(Self {
            tail,
            state,
            events: VecDeque::new(),
            from: after,
            reached: after,
            nudged: false,
        })
    }

    /// Receives until there is a page, or everything.
    async fn wind(
        &mut self,
        session: &Session,
        prefix: &Prefix,
        upto: Revision,
        limit: usize,
    ) -> Result<(), WatchError> {
        while self.reached < upto && self.events.len() <= limit {
            match timeout(GRACE, self.tail.next(session)).await {
                Ok(Ok(delivery)) => {
                    let events = delivery
                        .events
                        .into_iter()
                        .filter_map(|event| tail::event(&session.keys, &self.state, event))
                        .filter(|event| prefix.contains(&event.key));
                    self.events.extend(events);
                    self.reached = self.state.revision(delivery.upto);
                }
                Ok(Err(error)) => return Err(explain(session, &self.state, self.from, error)),
                Err(_) if self.nudged => {}
                Err(_) => {
                    beat(session)
                        .await
                        .map_err(|failure| session.store_error(failure))?;
                    self.nudged = true;
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

fn explain(session: &Session, state: &State, after: Revision, error: TailError) -> WatchError {
    match error {
        TailError::Compacted(etcd) => WatchError::Compacted {
            after,
            oldest: state.revision(etcd).max(state.floor()),
        },
        TailError::Lost(failure) => session.store_error(failure).into(),
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
