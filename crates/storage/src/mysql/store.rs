//! The MySQL store: pool, writer, follower and watches.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{
    BACKEND,
    commit_publisher::CommitPublisher,
    compaction,
    connection::{ConnectionFactory, ConnectionRole},
    expiries,
    failure::{MysqlFailure, timed_out},
    follower::LogFollower,
    health, history_mark,
    import::MysqlImport,
    options::MysqlOptions,
    pool::ConnectionPool,
    range, reads, schema,
    writer::MysqlWriter,
};
use crate::{
    CommitError, Entry, Event, HistoryMark, Import, ImportError, Key, OpenError, Page, Prefix, Range,
    ReadError, Revision, Store, StoreError, StoreHealth, WatchError, WatchStream, Write,
    expiry::ExpirySweeper,
    feed::{FeedWatch, WatchHistory},
};

/// A store in a MySQL or MariaDB database, which other processes may use at the same time.
pub struct MysqlStore {
    shared: Arc<MysqlStoreShared>,
    writer: MysqlWriter,
    /// Background tasks, until the store is closed.
    tasks: Mutex<Option<(LogFollower, ExpirySweeper)>>,
}

/// The state that reads, watches and imports share.
pub(super) struct MysqlStoreShared {
    connector: Arc<ConnectionFactory>,
    pub(super) pool: ConnectionPool,
    publisher: Arc<CommitPublisher>,
    /// Set once, by `close`.
    closed: AtomicBool,
}

// --- MysqlStore ---

impl MysqlStore {
    /// Connects, creates the database and the tables if they are missing, and starts to poll the log. Must be called in a Tokio
    /// runtime.
    pub async fn open(options: MysqlOptions) -> Result<Arc<Self>, OpenError> {
        options.check()?;
        schema::prepare(&options).await?;
        let connector = Arc::new(ConnectionFactory::new(options));
        let pool = ConnectionPool::new(Arc::clone(&connector));
        let publisher = pool.once(begin_tail(&connector)).await?;
        let publisher = Arc::new(publisher);
        let shared = Arc::new(MysqlStoreShared {
            connector: Arc::clone(&connector),
            pool,
            publisher: Arc::clone(&publisher),
            closed: AtomicBool::new(false),
        });
        Ok(Arc::new_cyclic(|store| Self {
            shared,
            writer: MysqlWriter::start(Arc::clone(&connector), Arc::clone(&publisher)),
            tasks: Mutex::new(Some((
                LogFollower::start(connector, Arc::clone(&publisher)),
                ExpirySweeper::start(Arc::clone(&publisher.deadlines), store.clone()),
            ))),
        }))
    }
}

/// Where to begin to follow the log, with the deadlines of what is there already.
async fn begin_tail(connector: &ConnectionFactory) -> Result<CommitPublisher, MysqlFailure> {
    let mut connection = connector.connect(ConnectionRole::Reader).await?;
    // The position first: deadlines of later commits are loaded, and then learned again from events.
    let rows = connection.rows(reads::head_statement()).await?;
    let head = reads::head_of(&rows).map_err(MysqlFailure::Permanent)?;
    let publisher = CommitPublisher::new(head.revision);
    expiries::load(&mut connection, &publisher).await?;
    Ok(publisher)
}

#[async_trait]
impl Store for MysqlStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        self.shared.check_open()?;
        reads::get(&self.shared.pool, key).await
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        self.shared.check_open()?;
        range::range(&self.shared.pool, prefix, &page).await
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        self.shared.check_open()?;
        write.check()?;
        self.writer.commit(write).await
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        self.shared.check_open()?;
        let head = reads::head(&self.shared.pool).await?;
        if after > head.revision {
            return Err(WatchError::Future {
                after,
                current: head.revision,
            });
        }
        if after < head.compacted {
            return Err(WatchError::Compacted {
                after,
                oldest: head.compacted,
            });
        }
        if self.shared.publisher.feed.position() < head.revision {
            self.shared.publisher.poll_now(); // another process waits for what peers wrote
        }
        let history = Arc::clone(&self.shared);
        let feed = Arc::clone(&self.shared.publisher.feed);
        Ok(WatchStream::new(FeedWatch::new(history, feed, prefix, after)))
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        self.shared.check_open()?;
        compaction::compact(&self.shared.pool, upto).await
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        self.shared.check_open()?;
        history_mark::read(&self.shared.pool).await
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        self.shared.check_open()?;
        history_mark::replace(&self.shared.pool, expected, mark).await
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        self.shared.check_open()?;
        let revision = reads::head(&self.shared.pool).await?.revision;
        self.shared.catch_up(revision).await?;
        self.shared.publisher.feed.announce();
        Ok(revision)
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        self.shared.check_open()?;
        let head = self.shared.pool.once(health::probe(&self.shared.pool)).await?;
        Ok(StoreHealth {
            backend: BACKEND,
            revision: head.revision,
        })
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        self.shared.check_open()?;
        let import = MysqlImport::begin(Arc::clone(&self.shared), source).await?;
        Ok(Box::new(import))
    }

    async fn discard(&self) -> Result<(), ImportError> {
        self.shared.check_open()?;
        MysqlImport::discard(Arc::clone(&self.shared)).await
    }

    async fn close(&self) {
        self.shared.closed.store(true, Ordering::Release);
        drop(self.tasks.lock().take());
        self.writer.close().await;
        self.shared.publisher.feed.close();
        self.shared.pool.close();
    }
}

// --- MysqlStoreShared ---

impl MysqlStoreShared {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    /// Waits until the watchers of this process have received everything up to `revision`.
    pub(super) async fn catch_up(&self, revision: Revision) -> Result<(), StoreError> {
        timeout(
            self.connector.options.request_timeout,
            self.publisher.reach(revision),
        )
        .await
        .map_err(|_| timed_out())
    }
}

#[async_trait]
impl WatchHistory for MysqlStoreShared {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        self.check_open()?;
        reads::past(&self.pool, prefix, after, upto, limit).await
    }
}
