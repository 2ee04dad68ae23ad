//! The door: what callers see of the file store.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use async_trait::async_trait;
use redb::{ReadableDatabase, ReadableTable};
use tokio::{sync::oneshot, time::Instant};

use super::{
    engine::{Engine, FILE, Fault, Open, guarded, panic_message},
    import::{FileImport, ImportStep},
    mark::Mark,
    migration,
    options::{FileOptions, Repair},
    record::Record,
    shrink::COPY,
    tables::{self, BYTES, EXPIRING, FLOOR, IMPORTING, LOG, Snapshot},
    volume::{Folder, Volume},
    writer::{Job, Position, Writer},
};
use crate::{
    Clock, CommitError, Entry, Event, Events, Health, Import, ImportError, Key, OpenError, Page, Prefix,
    Range, ReadError, Revision, Store, StoreError, WatchError, Write,
    expiry::{Deadlines, Sweeper},
    feed::{Feed, FeedWatch, History},
};

/// A store in a folder.
pub struct FileStore {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    writer: Mutex<Option<JoinHandle<()>>>,
    _sweeper: Sweeper,
}

/// What the door, the writer and its threads share.
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) feed: Arc<Feed>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) repair: Repair,
    pub(super) phase: Phase,
}

/// What the store may be asked to do now.
pub(super) struct Phase(AtomicU8);

const OPEN: u8 = 0;
const IMPORTS: u8 = 1;
const CLOSED: u8 = 2;

/// Reads past events for watches.
struct FileHistory {
    /// A watch does not keep the store open.
    shared: Weak<Shared>,
    jobs: mpsc::Sender<Job>,
}

// --- FileStore ---

impl FileStore {
    /// Opens the store in the options' folder, and makes it if it is not there.
    pub async fn open(options: FileOptions) -> Result<Arc<Self>, OpenError> {
        let folder = options.folder.clone();
        let volume = blocking(move || Folder::claim(&folder)).await??;
        Self::open_on(Arc::new(volume), options).await
    }

    /// Opens the store on a volume, whatever the options' folder.
    pub async fn open_on(volume: Arc<dyn Volume>, options: FileOptions) -> Result<Arc<Self>, OpenError> {
        let (shared, position) = blocking(move || Shared::open(volume, &options)).await??;
        let shared = Arc::new(shared);
        let (jobs, receiver) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&shared), (jobs.clone(), receiver), position);
        let writer = std::thread::Builder::new()
            .name("k3-store".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::unavailable("file", "cannot start the writer's thread", error))?;
        Ok(Arc::new_cyclic(|store| Self {
            _sweeper: Sweeper::start(Arc::clone(&shared.deadlines), store.clone()),
            shared,
            jobs,
            writer: Mutex::new(Some(writer)),
        }))
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&Snapshot) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.shared.phase.check()?;
        self.shared.read(&self.jobs, read).await
    }

    /// Tells the writer to stop after what it has been given. The first to do so gets it to wait for.
    fn dismiss(&self) -> Option<JoinHandle<()>> {
        self.shared.phase.close();
        let writer = self
            .writer
            .lock()
            .expect("nothing panics while it holds the writer")
            .take();
        // A writer that is gone already has nothing left to stop.
        let _ = self.jobs.send(Job::Stop);
        writer
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        if let Some(writer) = self.dismiss() {
            self.shared.end(writer);
        }
    }
}

#[async_trait]
impl Store for FileStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, ReadError> {
        let key = key.clone();
        Ok(self.read(move |snapshot| snapshot.get(&key)).await?)
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        let prefix = prefix.clone();
        self.read(move |snapshot| snapshot.range(&prefix, &page)).await?
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        write.check()?;
        self.shared.phase.check()?;
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(Job::Commit(write, answer))
            .map_err(|_| StoreError::Closed)?;
        // A writer that stopped before it took the write did not perform it.
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<Events, WatchError> {
        let (current, compacted) = self
            .read(|snapshot| Ok((snapshot.current, snapshot.compacted)))
            .await?;
        if after > current {
            return Err(WatchError::Future { after, current });
        }
        if after < compacted {
            return Err(WatchError::Compacted {
                after,
                oldest: compacted,
            });
        }
        let history = FileHistory {
            shared: Arc::downgrade(&self.shared),
            jobs: self.jobs.clone(),
        };
        Ok(Events::new(FeedWatch::new(
            Arc::new(history),
            Arc::clone(&self.shared.feed),
            prefix,
            after,
        )))
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(Job::Compact(upto, answer))
            .map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        self.shared.phase.check()?;
        let revision = self.shared.feed.position();
        self.shared.feed.announce();
        Ok(revision)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        let revision = self.read(|snapshot| Ok(snapshot.current)).await?;
        Ok(Health {
            backend: "file",
            revision,
        })
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        let import = FileImport {
            jobs: self.jobs.clone(),
        };
        import.ask(ImportStep::Begin { source }).await?;
        Ok(Box::new(import))
    }

    async fn close(&self) {
        let Some(writer) = self.dismiss() else { return };
        let shared = Arc::clone(&self.shared);
        if let Err(error) = blocking(move || shared.end(writer)).await {
            tracing::error!(%error, "cannot close the store");
        }
    }
}

// --- Shared ---

impl Shared {
    fn open(volume: Arc<dyn Volume>, options: &FileOptions) -> Result<(Self, Position), OpenError> {
        let place = volume.place();
        let io = |source| OpenError::Io {
            path: place.clone().into(),
            source,
        };
        // Left by a process that ended while it made a copy.
        volume.remove(COPY).map_err(io)?;
        let mark = Mark::read(&*volume)?;
        if mark.is_some() && volume.open(FILE).and_then(|file| file.is_empty()).map_err(io)? {
            return Err(StoreError::Corrupt(format!("{FILE} in {place} is missing or empty")).into());
        }
        let engine = Engine::open(volume, options)?;
        let open = engine.current()?;
        let explain = |fault| engine.explain(fault);
        migration::run(&engine, migration::STEPS)?;
        let (position, importing) = guarded(|| survey(&open)).map_err(explain)?;
        match mark {
            None => Mark {
                closed_at: Revision::ZERO,
            }
            .write(&*engine.volume)
            .map_err(io)?,
            Some(Mark { closed_at }) if position.current < closed_at => {
                let now = position.current;
                let message =
                    format!("{FILE} in {place} is at revision {now}, but was closed at {closed_at}");
                return Err(StoreError::Corrupt(message).into());
            }
            Some(_) => {}
        }
        let shared = Self {
            feed: Arc::new(Feed::new(position.current)),
            deadlines: Arc::default(),
            clock: Arc::clone(&options.clock),
            repair: options.repair,
            phase: Phase(AtomicU8::new(if importing { IMPORTS } else { OPEN })),
            engine,
        };
        guarded(|| shared.load_deadlines(&open)).map_err(|fault| shared.engine.explain(fault))?;
        Ok((shared, position))
    }

    /// Waits for the writer, then ends the watches and closes the file.
    fn end(&self, writer: JoinHandle<()>) {
        if let Err(panic) = writer.join() {
            tracing::error!(panic = panic_message(&*panic), "the store's writer has panicked");
        }
        self.feed.close();
        let mark = Mark {
            closed_at: self.feed.position(),
        };
        if let Err(error) = mark.write(&*self.engine.volume) {
            // The mark only helps to notice damage; an older one does no harm.
            tracing::warn!(%error, "cannot note where the store was closed");
        }
        self.engine.close();
    }

    /// Reads from a snapshot on a thread that may block.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        jobs: &mpsc::Sender<Job>,
        read: impl Fn(&Snapshot) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (shared, jobs) = (Arc::clone(self), jobs.clone());
        blocking(move || {
            let ask_writer = || {
                // A writer that is gone mends nothing; the read will say so.
                let _ = jobs.send(Job::Mend);
            };
            shared
                .engine
                .read(|database| read(&Snapshot::take(database)?), ask_writer)
        })
        .await?
    }

    /// Learns from the file which entries expire, and when.
    pub(super) fn load_deadlines(&self, open: &Open) -> Result<(), Fault> {
        let txn = open.database.begin_read()?;
        let log = txn.open_table(LOG)?;
        let now = self.clock.now();
        for found in txn.open_table(EXPIRING)?.iter()? {
            let revision = Revision::new(found?.1.value());
            let lost = || StoreError::Corrupt(format!("the record of revision {revision} is missing"));
            let stored = log.get(revision.get())?.ok_or_else(lost)?;
            let entry = Record::read(revision, stored.value())?
                .entry()?
                .ok_or_else(lost)?;
            if let Some(expiry) = entry.expiry {
                self.deadlines
                    .set(entry.key, revision, Instant::now() + expiry.left(now));
            }
        }
        Ok(())
    }
}

/// Where the store stands, and whether an import into it is unfinished.
fn survey(open: &Open) -> Result<(Position, bool), Fault> {
    let Snapshot {
        current, compacted, ..
    } = Snapshot::take(&open.database)?;
    let txn = open.database.begin_read()?;
    let floor = tables::meta(&txn, FLOOR)?.unwrap_or(0);
    let mut bytes = tables::meta(&txn, BYTES)?.unwrap_or(0);
    for record in txn.open_table(LOG)?.range(floor + 1..)? {
        bytes += record?.1.value().len() as u64;
    }
    let importing = tables::meta(&txn, IMPORTING)?.is_some();
    Ok((
        Position {
            current,
            compacted,
            bytes,
        },
        importing,
    ))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| match error.try_into_panic() {
            Ok(panic) => StoreError::Corrupt(format!("the engine gave up: {}", panic_message(&*panic))),
            Err(_) => StoreError::Closed,
        })
}

// --- Phase ---

impl Phase {
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.load(Ordering::SeqCst) {
            OPEN => Ok(()),
            IMPORTS => Err(StoreError::UnfinishedImport),
            _ => Err(StoreError::Closed),
        }
    }

    pub(super) fn is_importing(&self) -> bool {
        self.0.load(Ordering::SeqCst) == IMPORTS
    }

    pub(super) fn set_importing(&self, importing: bool) {
        let phase = if importing { IMPORTS } else { OPEN };
        // A store that is closed stays closed.
        let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
            (old != CLOSED).then_some(phase)
        });
    }

    fn close(&self) {
        self.0.store(CLOSED, Ordering::SeqCst);
    }
}

// --- FileHistory ---

#[async_trait]
impl History for FileHistory {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let prefix = prefix.clone();
        let shared = self.shared.upgrade().ok_or(StoreError::Closed)?;
        shared
            .read(&self.jobs, move |snapshot| {
                snapshot.past(&prefix, after, upto, limit)
            })
            .await?
    }
}
