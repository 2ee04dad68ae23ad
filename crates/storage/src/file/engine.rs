//! The database file, and how it is opened again after it failed.

use std::{
    cell::Cell,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k3_task::panic_message;
use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::StorageBackend;

use super::{
    directory::{StoreDirectory, StoreFile},
    options::{Durability, FileOptions},
};
use crate::StoreError;

/// The file's name on its directory.
pub(super) const FILE: &str = "store.redb";

thread_local! {
    /// Whether engine code runs on this thread whose panics are caught.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// How long a reader waits for the writer to open a failed file again.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a read is tried before its error is trusted.
const READ_ATTEMPTS: u32 = 3;

/// The open database file. After an I/O error the engine refuses everything until it is opened again:
/// the writer does that, and readers wait for it.
pub(super) struct Engine {
    pub(super) directory: Arc<dyn StoreDirectory>,
    cache_bytes: usize,
    durability: Durability,
    /// A sync of any opening has failed: what was written before it may be anywhere.
    sync_failed: Arc<AtomicBool>,
    /// `None` once the store is closed.
    open: Mutex<Option<Arc<Open>>>,
    reopened: Condvar,
}

/// One opening of a database file.
pub(super) struct Open {
    pub(super) database: redb::Database,
    pub(super) gate: Arc<EngineGate>,
}

/// Stands between the engine and its file.
#[derive(Debug)]
pub(super) struct EngineGate {
    file: Box<dyn StoreFile>,
    /// Whether the engine's syncs reach the disk.
    syncing: AtomicBool,
    /// That of the engine.
    sync_failed: Arc<AtomicBool>,
    /// The file belongs to a later opening; this one must not touch it again, not even when dropped.
    revoked: AtomicBool,
}

#[derive(Debug)]
struct GatedFile(Arc<EngineGate>);

/// Why an operation on the file failed.
#[derive(Debug)]
pub(super) enum EngineError {
    /// The engine said so.
    Engine(redb::Error),
    /// What it gave was not what it should be.
    Store(StoreError),
}

// --- Engine ---

impl Engine {
    /// Opens or creates the file.
    pub(super) fn open(
        directory: Arc<dyn StoreDirectory>,
        options: &FileOptions,
    ) -> Result<Self, StoreError> {
        let cache_bytes = options.cache_bytes;
        let durability = options.durability;
        let engine = Self {
            directory,
            cache_bytes,
            durability,
            sync_failed: Arc::default(),
            open: Mutex::new(None),
            reopened: Condvar::new(),
        };
        let open = engine.open_file(FILE, durability)?;
        engine.replace(Arc::new(open));
        Ok(engine)
    }

    /// The present opening.
    pub(super) fn current(&self) -> Result<Arc<Open>, StoreError> {
        self.lock().clone().ok_or(StoreError::Closed)
    }

    /// Opens another file of the directory, for now without syncing it.
    pub(super) fn open_beside(&self, name: &str) -> Result<Open, StoreError> {
        self.open_file(name, Durability::Relaxed)
    }

    /// Makes another opening the present one.
    pub(super) fn replace(&self, open: Arc<Open>) {
        *self.lock() = Some(open);
        self.reopened.notify_all();
    }

    /// Closes the file and lets go of the directory.
    pub(super) fn close(&self) {
        let open = self.lock().take();
        self.reopened.notify_all();
        if let Some(open) = open
            && let Err(shared) = Arc::try_unwrap(open)
        {
            // A reader is still at it. Its opening must not write its farewell into a file that may
            // by then be another process's: the next open finds an unclean end, which does no harm.
            shared.gate.revoked.store(true, Ordering::SeqCst);
        }
        self.directory.release();
    }

    /// Opens the file again after it failed, at its last good commit. `complete` adds what it misses before others see it.
    pub(super) fn reopen(
        &self,
        complete: impl FnOnce(&Open) -> Result<(), EngineError>,
    ) -> Result<Arc<Open>, StoreError> {
        self.current()?.gate.revoked.store(true, Ordering::SeqCst);
        let open = Arc::new(self.open_file(FILE, self.durability)?);
        guarded(|| complete(&open)).map_err(|engine_error| self.explain(engine_error))?;
        self.replace(Arc::clone(&open));
        Ok(open)
    }

    /// Reads something. If the present opening has failed, asks the writer to mend it, and tries
    /// again on the next one.
    ///
    /// Only the writer opens the file again, between two transactions: were a reader to do it, a
    /// commit of the old opening could still be under way behind the back of the new one.
    pub(super) fn read<T>(
        &self,
        read: impl Fn(&redb::Database) -> Result<T, EngineError>,
        ask_writer: impl Fn(),
    ) -> Result<T, StoreError> {
        let mut open = self.current()?;
        let mut attempts = 1;
        loop {
            let engine_error = match guarded(|| read(&open.database)) {
                Ok(answer) => return Ok(answer),
                Err(engine_error) => engine_error,
            };
            if attempts == READ_ATTEMPTS || !open.gate.has_failed(&engine_error) {
                return Err(self.explain(engine_error));
            }
            ask_writer();
            let mut present = self.lock();
            let waited = self.reopened.wait_while_for(
                &mut present,
                |present| {
                    present
                        .as_ref()
                        .is_some_and(|present| Arc::ptr_eq(present, &open))
                },
                PATIENCE,
            );
            if waited.timed_out() {
                return Err(self.explain(engine_error));
            }
            open = present.clone().ok_or(StoreError::Closed)?;
            attempts += 1;
        }
    }

    fn open_file(&self, name: &str, durability: Durability) -> Result<Open, StoreError> {
        let location = self.directory.location();
        let io_fault = |error| explain(&location, EngineError::Engine(redb::Error::Io(error)));
        let file = self.directory.open(name).map_err(io_fault)?;
        file.forget_cached().map_err(io_fault)?;
        let gate = Arc::new(EngineGate {
            file,
            syncing: AtomicBool::new(durability == Durability::Synced),
            sync_failed: Arc::clone(&self.sync_failed),
            revoked: AtomicBool::new(false),
        });
        let database = guarded(|| open_checked(GatedFile(Arc::clone(&gate)), self.cache_bytes, &location));
        match database {
            Ok(database) => Ok(Open { database, gate }),
            Err(engine_error) => Err(explain(&location, engine_error)),
        }
    }

    /// Whether a sync has failed since the store was opened, of this opening of the file or of one before.
    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::SeqCst)
    }

    /// The durability that syncing follows.
    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// A failure as text for the caller.
    pub(super) fn explain(&self, engine_error: EngineError) -> StoreError {
        explain(&self.directory.location(), engine_error)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Open>>> {
        self.open.lock()
    }
}

/// Opens the file at its last good commit, and looks at all of it once: a flipped bit in an index
/// would otherwise pass for a key that is not there.
fn open_checked(file: GatedFile, cache_bytes: usize, location: &str) -> Result<redb::Database, EngineError> {
    let repaired = Arc::new(AtomicBool::new(false));
    let mut builder = redb::Database::builder();
    builder.set_cache_size(cache_bytes);
    builder.set_repair_callback({
        let repaired = Arc::clone(&repaired);
        move |_| repaired.store(true, Ordering::SeqCst)
    });
    let mut database = builder.create_with_backend(file).map_err(redb::Error::from)?;
    // A repair after an unclean end has looked at everything already.
    if !repaired.load(Ordering::SeqCst) && !database.check_integrity().map_err(redb::Error::from)? {
        tracing::warn!(
            "{location} was damaged; the last commits that did not reach the disk whole are undone"
        );
    }
    Ok(database)
}

/// Runs engine code, and turns a panic into a failure: the engine asserts what its file should look
/// like, and a damaged file breaks that.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(outer);
    outcome.unwrap_or_else(|panic| {
        tracing::debug!(panic = panic_message(&*panic), "the storage engine panicked");
        let message = format!("{FILE} does not have the structure that it should");
        Err(EngineError::Store(StoreError::Corrupt(message)))
    })
}

/// Whether a panic of this thread is caught and reported as an error of the store. A panic hook then prints nothing.
pub fn is_panic_handled() -> bool {
    GUARDED.get()
}

fn explain(location: &str, engine_error: EngineError) -> StoreError {
    let error = match engine_error {
        EngineError::Store(error) => return error,
        EngineError::Engine(error) => error,
    };
    match error {
        redb::Error::Io(error) if is_full(&error) => StoreError::Full {
            location: location.to_owned(),
            message: error.to_string(),
        },
        redb::Error::Io(error) => StoreError::unavailable("file", location, error),
        redb::Error::Corrupted(message) => {
            tracing::debug!(message, "the storage engine reports corruption");
            StoreError::Corrupt(format!(
                "{location}: {FILE} does not have the content that it should"
            ))
        }
        error => {
            tracing::debug!(%error, "the storage engine failed");
            StoreError::Unavailable {
                backend: "file",
                message: format!("{location}: {FILE} cannot be used as a store"),
                source: None,
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

// --- EngineGate ---

impl EngineGate {
    /// Syncs the file, whatever the durability, and from now on for every commit if `syncing`.
    pub(super) fn settle(&self, durability: Durability) -> io::Result<()> {
        self.file.sync()?;
        self.syncing
            .store(durability == Durability::Synced, Ordering::SeqCst);
        Ok(())
    }

    /// The length of the file.
    pub(super) fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Whether the failure means that this opening is of no more use.
    fn has_failed(&self, engine_error: &EngineError) -> bool {
        self.revoked.load(Ordering::SeqCst)
            || matches!(
                engine_error,
                EngineError::Engine(
                    redb::Error::Io(_) | redb::Error::PreviousIo | redb::Error::DatabaseClosed
                )
            )
    }

    fn pass(&self) -> io::Result<&dyn StoreFile> {
        if self.revoked.load(Ordering::SeqCst) {
            return Err(io::Error::other("the file was opened again"));
        }
        Ok(&*self.file)
    }
}

impl StorageBackend for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.pass()?.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.pass()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.pass()?.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let file = self.0.pass()?;
        if !self.0.syncing.load(Ordering::SeqCst) {
            return Ok(());
        }
        file.sync()
            .inspect_err(|_| self.0.sync_failed.store(true, Ordering::SeqCst))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.pass()?.write(offset, data)
    }
}

// --- EngineError ---

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The engine has an error type per operation; all of them fold into one.
macro_rules! fault_from {
    ($($error:ty),*) => {$(
        impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                Self::Engine(error.into())
            }
        }
    )*};
}

fault_from!(
    redb::Error,
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::SetDurabilityError
);
