//! Gives space back to the disk: copies what is in the file to a new one, beside the running store,
//! and replaces the file with it between two groups of commits.
//!
//! A crash at any instant leaves either the old file or the new one under the store's name, and both
//! hold every acknowledged write: the rename happens after the copy has caught up and was synced, and
//! before the next group is answered.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use redb::ReadableDatabase;

use super::{
    engine::{EngineError, FILE, Open, guarded},
    store::FileStoreShared,
    tables::{LOG, StoreMeta, read_history_mark, write_history_mark},
    writer::WriterJob,
};
use crate::{Revision, StoreError};

/// The copy's name until it replaces the file.
pub(super) const COPY: &str = "store.redb.new";
/// The file is copied when it is this many times as long as it needs to be.
pub(super) const WORTH: u64 = 2;
/// The most records the writer itself copies, while commits wait.
pub(super) const CATCH_UP_RECORDS: u64 = 1000;
/// Records copied in one transaction.
const CHUNK: usize = 1000;

/// A copy of the file.
pub(super) struct CompactedCopy {
    copy: Open,
    /// It holds everything up to here.
    pub(super) upto: Revision,
}

/// About how long a file with records of so many bytes needs to be: pages are not quite full.
pub(super) fn estimate(bytes: u64) -> u64 {
    bytes + bytes / 4 + (1 << 20)
}

/// Makes a copy in a thread of its own, or brings one up to date, and sends it to the writer. The
/// thread ends soon after the store is closed.
pub(super) fn start(
    shared: Arc<FileStoreShared>,
    writer: mpsc::Sender<WriterJob>,
    behind: Option<CompactedCopy>,
) -> Option<JoinHandle<()>> {
    let report = writer.clone();
    let work = move || {
        let shrunk = guarded(|| match behind {
            None => copy(&shared),
            Some(behind) => catch_up(&shared, behind),
        });
        let shrunk = shrunk.map_err(|engine_error| shared.engine.explain(engine_error));
        // A writer that has stopped needs no copy.
        let _ = writer.send(WriterJob::CompactedCopy(shrunk));
    };
    match std::thread::Builder::new().name("k3-shrink".into()).spawn(work) {
        Ok(thread) => Some(thread),
        Err(error) => {
            let error = StoreError::unavailable("file", "cannot start a thread to shrink the file", error);
            let _ = report.send(WriterJob::CompactedCopy(Err(error)));
            None
        }
    }
}

fn copy(shared: &FileStoreShared) -> Result<CompactedCopy, EngineError> {
    shared.engine.directory.remove(COPY).map_err(redb::Error::Io)?;
    let copy = shared.engine.open_beside(COPY)?;
    let source = shared.engine.current()?;
    let txn = copy.database.begin_write()?;
    txn.open_table(LOG)?;
    let from = source.database.begin_read()?;
    StoreMeta::read(&from)?.write(&txn)?;
    if let Some(mark) = read_history_mark(&from)? {
        write_history_mark(&txn, mark)?;
    }
    txn.commit()?;
    catch_up(
        shared,
        CompactedCopy {
            copy,
            upto: Revision::ZERO,
        },
    )
}

/// Adds the records that the copy does not have yet.
fn catch_up(shared: &FileStoreShared, behind: CompactedCopy) -> Result<CompactedCopy, EngineError> {
    let CompactedCopy { copy, mut upto } = behind;
    let source = shared.engine.current()?.database.begin_read()?;
    let records = source.open_table(LOG)?;
    let mut records = records.range(upto.next().get()..)?;
    loop {
        let txn = copy.database.begin_write()?;
        let mut log = txn.open_table(LOG)?;
        let mut copied = 0;
        for record in records.by_ref().take(CHUNK) {
            let (revision, stored) = record?;
            log.insert(revision.value(), stored.value())?;
            upto = Revision::new(revision.value());
            copied += 1;
        }
        drop(log);
        txn.commit()?;
        if copied < CHUNK {
            return Ok(CompactedCopy { copy, upto });
        }
        shared.phase.check()?;
    }
}

/// Completes the copy and replaces the file with it. Called only by the writer between two groups, so that nothing is committed
/// in the meantime.
pub(super) fn switch(shared: &FileStoreShared, behind: CompactedCopy) -> Result<(), StoreError> {
    let engine = &shared.engine;
    let explain = |engine_error| engine.explain(engine_error);
    let io = |error| explain(EngineError::Engine(redb::Error::Io(error)));
    let CompactedCopy { copy, .. } = guarded(|| catch_up(shared, behind)).map_err(explain)?;
    copy.gate.settle(engine.durability()).map_err(io)?;
    let before = engine.current()?.gate.len().map_err(io)?;
    let after = copy.gate.len().map_err(io)?;
    engine.directory.rename(COPY, FILE).map_err(io)?;
    engine.replace(Arc::new(copy));
    tracing::info!(before, after, "the store's file has been shrunk");
    Ok(())
}
