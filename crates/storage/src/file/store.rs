//! The file store.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use async_trait::async_trait;
use k3_task::{Clock, panic_message};
use parking_lot::Mutex;
use redb::ReadableDatabase;
use tokio::{sync::oneshot, time::Instant};

use super::{
    directory::{FsDirectory, StoreDirectory},
    engine::{Engine, EngineError, FILE, Open, guarded},
    import::{FileImport, ImportStep},
    index::{IndexScan, KeyIndex},
    journal::{JOURNAL, Journal},
    mark::{CloseMark, CurrentMark, MarkForm},
    migration,
    options::{Durability, FileOptions, RepairMode},
    shrink::COPY,
    tables::{FileSnapshot, LOG, StoreMeta, read_history_mark},
    writer::{FileWriter, WriterJob, WriterPosition},
};
use crate::{
    CommitError, Entry, Event, HistoryMark, Import, ImportError, Key, OpenError, Page, Prefix, Range,
    ReadError, Revision, Store, StoreError, StoreHealth, WatchError, WatchStream, Write,
    expiry::{Deadlines, ExpirySweeper},
    feed::{EventFeed, FeedWatch, WatchHistory},
};

/// A store in a directory.
pub struct FileStore {
    shared: Arc<FileStoreShared>,
    jobs: mpsc::Sender<WriterJob>,
    writer: Mutex<Option<JoinHandle<()>>>,
    _sweeper: ExpirySweeper,
}

/// The state that the store, the writer and its threads share.
pub(super) struct FileStoreShared {
    pub(super) engine: Engine,
    pub(super) index: KeyIndex,
    pub(super) feed: Arc<EventFeed>,
    pub(super) deadlines: Arc<Deadlines>,
    pub(super) clock: Clock,
    pub(super) repair: RepairMode,
    pub(super) phase: FileStorePhase,
    pub(super) mark: CurrentMark,
}

/// The phase of the store, which decides about the allowed operations.
pub(super) struct FileStorePhase(AtomicU8);

const OPEN: u8 = 0;
const IMPORTS: u8 = 1;
const CLOSED: u8 = 2;

/// Reads past events for watches.
struct FileHistory {
    /// A watch does not keep the store open.
    shared: Weak<FileStoreShared>,
    jobs: mpsc::Sender<WriterJob>,
}

// --- FileStore ---

impl FileStore {
    /// Opens the store in the directory of the options, and creates it if missing.
    pub async fn open(options: FileOptions) -> Result<Arc<Self>, OpenError> {
        let path = options.directory.clone();
        let directory = blocking(move || FsDirectory::lock(&path)).await??;
        Self::open_on(Arc::new(directory), options).await
    }

    /// Opens the store in `directory`, whatever the options' directory.
    pub async fn open_on(
        directory: Arc<dyn StoreDirectory>,
        options: FileOptions,
    ) -> Result<Arc<Self>, OpenError> {
        let (shared, position, journal) =
            blocking(move || FileStoreShared::open(directory, &options)).await??;
        let shared = Arc::new(shared);
        let (jobs, receiver) = mpsc::channel();
        let writer = FileWriter::new(Arc::clone(&shared), (jobs.clone(), receiver), position, journal);
        let writer = std::thread::Builder::new()
            .name("k3-store".into())
            .spawn(move || writer.run())
            .map_err(|error| StoreError::unavailable("file", "cannot start the writer's thread", error))?;
        Ok(Arc::new_cyclic(|store| Self {
            _sweeper: ExpirySweeper::start(Arc::clone(&shared.deadlines), store.clone()),
            shared,
            jobs,
            writer: Mutex::new(Some(writer)),
        }))
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&FileStoreShared, &redb::Database) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.shared.phase.check()?;
        self.shared.read(&self.jobs, read).await
    }

    /// Stops the writer after its queued work. The first caller gets the handle to wait for.
    fn dismiss(&self) -> Option<JoinHandle<()>> {
        self.shared.phase.close();
        let writer = self.writer.lock().take();
        // The writer has stopped already.
        let _ = self.jobs.send(WriterJob::Stop);
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
        Ok(self
            .read(move |shared, file| shared.index.get(&key, || FileSnapshot::take(file)))
            .await?)
    }

    async fn range(&self, prefix: &Prefix, page: Page) -> Result<Range, ReadError> {
        let prefix = prefix.clone();
        loop {
            let prefix = prefix.clone();
            let requested = page.clone();
            let read = move |shared: &FileStoreShared, file: &redb::Database| {
                shared
                    .index
                    .range(&prefix, &requested, || FileSnapshot::take(file))
            };
            match self.read(read).await? {
                // The newest state was compacted while it was read, because it no longer is the newest.
                Err(ReadError::Compacted { .. }) if page.at.is_none() => {}
                answer => return answer,
            }
        }
    }

    async fn commit(&self, write: Write) -> Result<Revision, CommitError> {
        write.check()?;
        self.shared.phase.check()?;
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(WriterJob::Commit(write, answer))
            .map_err(|_| StoreError::Closed)?;
        // A writer that stopped before it took the write did not perform it.
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn watch(&self, prefix: &Prefix, after: Revision) -> Result<WatchStream, WatchError> {
        let compacted = self
            .read(|_, file| Ok(FileSnapshot::take(file)?.compacted))
            .await?;
        let current = self.shared.index.current();
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
        Ok(WatchStream::new(FeedWatch::new(
            Arc::new(history),
            Arc::clone(&self.shared.feed),
            prefix,
            after,
        )))
    }

    async fn compact(&self, upto: Revision) -> Result<(), StoreError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(WriterJob::Compact(upto, answer))
            .map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn history_mark(&self) -> Result<Option<HistoryMark>, StoreError> {
        self.read(|_, file| read_history_mark(&file.begin_read()?)).await
    }

    async fn replace_history_mark(
        &self,
        expected: Option<HistoryMark>,
        mark: HistoryMark,
    ) -> Result<bool, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(WriterJob::ReplaceMark(expected, mark, answer))
            .map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }

    async fn current_revision(&self) -> Result<Revision, StoreError> {
        self.shared.phase.check()?;
        let revision = self.shared.feed.position();
        self.shared.feed.announce();
        Ok(revision)
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        // Through to the disk, not only from memory, and through the writer.
        self.read(|_, file| FileSnapshot::take(file)).await?;
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(WriterJob::Probe(answer))
            .map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)??;
        Ok(StoreHealth {
            backend: "file",
            revision: self.shared.index.current(),
        })
    }

    async fn begin_import(&self, source: Revision) -> Result<Box<dyn Import>, ImportError> {
        let import = FileImport {
            jobs: self.jobs.clone(),
            token: Arc::default(),
        };
        import.ask(ImportStep::Begin { source }).await?;
        Ok(Box::new(import))
    }

    async fn discard(&self) -> Result<(), ImportError> {
        let import = FileImport {
            jobs: self.jobs.clone(),
            token: Arc::default(),
        };
        import.ask(ImportStep::Discard).await.map(drop)
    }

    async fn close(&self) {
        let Some(writer) = self.dismiss() else { return };
        let shared = Arc::clone(&self.shared);
        if let Err(error) = blocking(move || shared.end(writer)).await {
            tracing::error!(%error, "cannot close the store");
        }
    }
}

// --- FileStoreShared ---

impl FileStoreShared {
    fn open(
        directory: Arc<dyn StoreDirectory>,
        options: &FileOptions,
    ) -> Result<(Self, WriterPosition, Journal), OpenError> {
        let location = directory.location();
        let io = |source| OpenError::Io {
            path: location.clone().into(),
            source,
        };
        // Left by a process that ended while it made a copy.
        directory.remove(COPY).map_err(io)?;
        // A newer version may write the mark otherwise: the format, which is in the store's file, is checked first.
        let mark = CloseMark::read(&*directory);
        let is_used = !matches!(mark, Ok(None));
        let is_empty = directory
            .open(FILE)
            .and_then(|file| file.is_empty())
            .map_err(io)?;
        if is_used && is_empty {
            return Err(StoreError::Corrupt(format!("{FILE} in {location} is missing or empty")).into());
        }
        if is_empty {
            // Of another store, if there is one.
            directory.remove(JOURNAL).map_err(io)?;
        }
        let engine = Engine::open(directory, options)?;
        let open = engine.current()?;
        let explain = |engine_error| engine.explain(engine_error);
        let mut journal = Journal::open(Arc::clone(&engine.directory), options.journal_after).map_err(io)?;
        let mut known = None;
        migration::run(&engine, migration::STEPS, |open| {
            let mark = known.insert(mark?).as_ref();
            match mark.map(|mark| mark.form) {
                Some(MarkForm::FileAndJournal(id)) => {
                    guarded(|| journal.replay_last(id, open, options.repair)).map_err(explain)?;
                }
                None if journal.is_allocated().map_err(io)? => {
                    let message = format!("mark in {location} is missing or empty, but there is a journal");
                    return Err(StoreError::Corrupt(message).into());
                }
                None | Some(MarkForm::File) => {}
            }
            Ok(())
        })?;
        let mark = known.flatten();
        let (meta, survey) = guarded(|| survey(&open)).map_err(explain)?;
        let current = survey.current();
        match mark {
            None => CloseMark {
                closed_at: Revision::ZERO,
                form: MarkForm::File,
            }
            .write(&*engine.directory, Durability::Synced)
            .map_err(io)?,
            Some(CloseMark { closed_at, .. }) if current < closed_at => {
                let message =
                    format!("{FILE} in {location} is at revision {current}, but was closed at {closed_at}");
                return Err(StoreError::Corrupt(message).into());
            }
            Some(_) => {}
        }
        if mark.is_some_and(|mark| mark.form != MarkForm::File) {
            // The file has everything, and the journal gets a new number before a mark has it.
            open.gate.settle(options.durability).map_err(io)?;
            let mark = CloseMark {
                closed_at: current,
                form: MarkForm::File,
            };
            mark.write(&*engine.directory, Durability::Synced).map_err(io)?;
        }
        let position = WriterPosition {
            compacted: meta.compacted,
            bytes: survey.bytes,
            history_bytes: survey.history_bytes,
        };
        let deadlines = Arc::new(Deadlines::default());
        expect_expiries(&deadlines, &options.clock, &survey);
        let shared = Self {
            feed: Arc::new(EventFeed::new(current)),
            index: KeyIndex::new(survey),
            deadlines,
            clock: options.clock.clone(),
            repair: options.repair,
            phase: FileStorePhase(AtomicU8::new(if meta.importing.is_some() {
                IMPORTS
            } else {
                OPEN
            })),
            engine,
            mark: CurrentMark::default(),
        };
        Ok((shared, position, journal))
    }

    /// Records the deadlines of expiring entries.
    pub(super) fn expect_expiries(&self, survey: &IndexScan) {
        expect_expiries(&self.deadlines, &self.clock, survey);
    }

    /// Waits for the writer, then ends the watches and closes the file.
    fn end(&self, writer: JoinHandle<()>) {
        if let Err(panic) = writer.join() {
            tracing::error!(panic = panic_message(&*panic), "the store's writer has panicked");
        }
        self.feed.close();
        let mark = CloseMark {
            closed_at: self.feed.position(),
            form: self.mark.form(),
        };
        if let Err(error) = mark.write(&*self.engine.directory, Durability::Synced) {
            // The mark only helps to notice damage; an older one does no harm.
            tracing::warn!(%error, "cannot note where the store was closed");
        }
        self.engine.close();
    }

    /// Reads from a snapshot on a thread that may block.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        jobs: &mpsc::Sender<WriterJob>,
        read: impl Fn(&FileStoreShared, &redb::Database) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(self);
        let jobs = jobs.clone();
        blocking(move || {
            let ask_writer = || {
                // A writer that has stopped repairs nothing; the read will say so.
                let _ = jobs.send(WriterJob::Mend);
            };
            shared.engine.read(|file| read(&shared, file), ask_writer)
        })
        .await?
    }
}

fn expect_expiries(deadlines: &Deadlines, clock: &Clock, survey: &IndexScan) {
    let instant = Instant::now();
    let now = clock.system_time();
    for (key, (revision, expiry)) in &survey.expiring {
        deadlines.set(key.clone(), *revision, instant + expiry.left(now));
    }
}

/// Scans the whole file.
fn survey(open: &Open) -> Result<(StoreMeta, IndexScan), EngineError> {
    let txn = open.database.begin_read()?;
    let meta = StoreMeta::read(&txn)?;
    let survey = match meta.importing {
        None => IndexScan::take(&txn.open_table(LOG)?, meta.compacted)?,
        // The entries of an unfinished import are looked at when it ends.
        Some(_) => IndexScan::empty(meta.compacted),
    };
    Ok((meta, survey))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| match error.try_into_panic() {
            Ok(panic) => StoreError::Corrupt(format!("the engine gave up: {}", panic_message(&*panic))),
            Err(_) => StoreError::Closed,
        })
}

// --- FileStorePhase ---

impl FileStorePhase {
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
impl WatchHistory for FileHistory {
    async fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        let prefix = prefix.clone();
        let shared = self.shared.upgrade().ok_or(StoreError::Closed)?;
        let past = move |_: &FileStoreShared, file: &redb::Database| {
            FileSnapshot::take(file)?.past(&prefix, after, upto, limit)
        };
        shared.read(&self.jobs, past).await?
    }
}
