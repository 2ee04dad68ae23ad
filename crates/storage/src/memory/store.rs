//! The memory store: state, watches and expiry.

use std::sync::Arc;

use async_trait::async_trait;
use k3_task::Clock;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::state::MemoryState;
use crate::{
    CommitError, Entry, Event, Expiry, HistoryMark, Import, ImportError, Key, Operation, Page, Prefix, Range,
    ReadError, Revision, Store, StoreError, StoreHealth, WatchError, WatchStream, Write,
    expiry::{Deadlines, ExpirySweeper},
    feed::{EventFeed, FeedWatch, WatchHistory},
};

/// Number of entries read per lock, so that a long list does not block writers.
const CHUNK: usize = 500;

/// A store in the memory of the process.
pub struct MemoryStore {
    shared: Arc<MemoryStoreShared>,
    _sweeper: ExpirySweeper,
}

struct MemoryStoreShared {
    state: Mutex<MemoryStorePhase>,
    feed: Arc<EventFeed>,
    deadlines: Arc<Deadlines>,
    clock: Clock,
}

/// The phase of the store, which decides about the allowed operations.
enum MemoryStorePhase {
    Open(MemoryState),
    /// With the import that may finish it: the one begun last.
    Importing(MemoryState, Arc<()>),
    Closed,
}

struct MemoryImport {
    shared: Arc<MemoryStoreShared>,
    /// Distinguishes this import from later ones.
    token: Arc<()>,
    source: Revision,
    entries: Vec<Entry>,
}

// --- MemoryStore ---

impl MemoryStore {
    /// An empty store. Must be called inside a Tokio runtime, where expired entries are deleted.
    pub fn new() -> Arc<Self> {
        Self::with_clock(Clock::system())
    }

    /// An empty store that takes the time of day from `clock`.
    pub fn with_clock(clock: Clock) -> Arc<Self> {
        let state = MemoryState::new();
        let shared = Arc::new(MemoryStoreShared {
            feed: Arc::new(EventFeed::new(state.current())),
            state: Mutex::new(MemoryStorePhase::Open(state)),
            deadlines: Arc::default(),
            clock,
        });
        Arc::new_cyclic(|store| Self {
            _sweeper: ExpirySweeper::start(Arc::clone(&shared.deadlines), store.clone()),
            shared,
        })
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        Ok(self.shared.lock().open()?.get(key))
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        let limit = |taken: usize| match page.limit {
            0 => CHUNK,
            limit => CHUNK.min(limit - taken),
        };
        let first = Page {
            limit: limit(0),
            ..page.clone()
        };
        let mut range = self.shared.lock().open()?.range(prefix, &first)?;
        while page.limit == 0 || range.entries.len() < page.limit {
            let Some(next) = range.next(limit(range.entries.len())) else {
                break;
            };
            tokio::task::yield_now().await;
            let chunk = self.shared.lock().open()?.range(prefix, &next);
            let chunk = match chunk {
                // Compacted between two chunks. A caller that requested the newest state gets one, even if
                // that is compacted as fast as it is read: all of it under one lock.
                Err(ReadError::Compacted { .. }) if page.at.is_none() => {
                    return self.shared.lock().open()?.range(prefix, &page);
                }
                chunk => chunk?,
            };
            range.entries.extend(chunk.entries);
            range.more = chunk.more;
        }
        Ok(range)
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        write.check()?;
        let Write {
            key,
            precondition,
            operation,
        } = write;
        let stored = match operation {
            Operation::Put { value, ttl } => Some((
                value,
                ttl.map(|ttl| Expiry::after(self.shared.clock.system_time(), ttl)),
            )),
            Operation::Delete => None,
        };
        let expires = stored.as_ref().and_then(|(_, expiry)| *expiry);
        let mut phase = self.shared.lock();
        let event = phase.open()?.commit(&key, precondition, stored)?;
        let revision = event.revision;
        match expires {
            Some(expiry) => self
                .shared
                .deadlines
                .set(key, revision, Instant::now() + expiry.ttl),
            None => self.shared.deadlines.clear(&key),
        }
        // Under the lock, so that events are published in the order of their revisions.
        self.shared.feed.publish(std::slice::from_ref(&event));
        Ok(revision)
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        let mut phase = self.shared.lock();
        let state = phase.open()?;
        if after > state.current() {
            return Err(WatchError::Future {
                after,
                current: state.current(),
            });
        }
        if after < state.compacted() {
            return Err(WatchError::Compacted {
                after,
                oldest: state.compacted(),
            });
        }
        let history = Arc::clone(&self.shared);
        Ok(WatchStream::new(FeedWatch::new(
            history,
            Arc::clone(&self.shared.feed),
            prefix,
            after,
        )))
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        self.shared.lock().open()?.compact(upto);
        Ok(())
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        Ok(self.shared.lock().open()?.history_mark)
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        let mut phase = self.shared.lock();
        let state = phase.open()?;
        let holds = state.history_mark == expected;
        if holds {
            state.history_mark = Some(mark);
        }
        Ok(holds)
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        let revision = self.shared.lock().open()?.current();
        self.shared.feed.announce();
        Ok(revision)
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        Ok(StoreHealth {
            backend: "memory",
            revision: self.shared.lock().open()?.current(),
        })
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        let token = Arc::new(());
        let mut phase = self.shared.lock();
        *phase = match std::mem::replace(&mut *phase, MemoryStorePhase::Closed) {
            MemoryStorePhase::Closed => return Err(StoreError::Closed.into()),
            MemoryStorePhase::Open(state) if !state.is_empty() => {
                *phase = MemoryStorePhase::Open(state);
                return Err(ImportError::NotEmpty);
            }
            MemoryStorePhase::Open(state) | MemoryStorePhase::Importing(state, _) => {
                MemoryStorePhase::Importing(state, Arc::clone(&token))
            }
        };
        Ok(Box::new(MemoryImport {
            shared: Arc::clone(&self.shared),
            token,
            source,
            entries: Vec::new(),
        }))
    }

    async fn discard(&self) -> Result<(), ImportError> {
        let mut phase = self.shared.lock();
        *phase = match std::mem::replace(&mut *phase, MemoryStorePhase::Closed) {
            MemoryStorePhase::Closed => return Err(StoreError::Closed.into()),
            MemoryStorePhase::Open(state) | MemoryStorePhase::Importing(state, _) => {
                MemoryStorePhase::Importing(state, Arc::default())
            }
        };
        Ok(())
    }

    async fn close(&self) {
        *self.shared.lock() = MemoryStorePhase::Closed;
        self.shared.feed.close();
    }
}

// --- MemoryStoreShared ---

impl MemoryStoreShared {
    fn lock(&self) -> MutexGuard<'_, MemoryStorePhase> {
        self.state.lock()
    }
}

#[async_trait]
impl WatchHistory for MemoryStoreShared {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        self.lock().open()?.past(prefix, after, upto, limit)
    }
}

// --- MemoryStorePhase ---

impl MemoryStorePhase {
    fn open(&mut self) -> Result<&mut MemoryState, StoreError> {
        match self {
            Self::Open(state) => Ok(state),
            Self::Importing(..) => Err(StoreError::UnfinishedImport),
            Self::Closed => Err(StoreError::Closed),
        }
    }
}

// --- MemoryImport ---

#[async_trait]
impl Import for MemoryImport {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        self.entries.extend(entries);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        let mut phase = self.shared.lock();
        let mut state = match std::mem::replace(&mut *phase, MemoryStorePhase::Closed) {
            MemoryStorePhase::Importing(state, token) if Arc::ptr_eq(&token, &self.token) => state,
            MemoryStorePhase::Closed => return Err(StoreError::Closed.into()),
            other => {
                *phase = other;
                return Err(ImportError::Superseded);
            }
        };
        let now = self.shared.clock.system_time();
        for entry in &self.entries {
            if let Some(expiry) = entry.expiry {
                let at = Instant::now() + expiry.left(now);
                self.shared.deadlines.set(entry.key.clone(), entry.revision, at);
            }
        }
        state.import(self.entries, self.source);
        let current = state.current();
        self.shared.feed.jump(current);
        *phase = MemoryStorePhase::Open(state);
        Ok(current)
    }
}
