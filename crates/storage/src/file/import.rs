//! Fills an empty store with the entries of another.

use std::sync::{Arc, mpsc};

use async_trait::async_trait;
use redb::{ReadableTable, WriteTransaction};
use tokio::sync::oneshot;

use super::{
    engine::{EngineError, Open},
    index::IndexScan,
    record::{ChangeKind, LogRecord},
    store::FileStoreShared,
    tables::{LOG, StoreMeta},
    writer::{WriterJob, WriterPosition},
};
use crate::{Entry, Import, ImportError, Revision, StoreError};

/// What an import asks of the writer, in this order.
pub(super) enum ImportStep {
    Begin {
        source: Revision,
    },
    /// The same with a store that holds something, which was removed; a beginning follows.
    Discard,
    Put(Vec<Entry>),
    Finish,
}

pub(super) struct FileImport {
    pub(super) jobs: mpsc::Sender<WriterJob>,
    /// Reports it from one that was begun later.
    pub(super) token: Arc<()>,
}

/// Performs a step in a transaction of its own, and reports where the store stands then.
pub(super) fn perform(
    shared: &FileStoreShared,
    open: &Open,
    step: ImportStep,
    position: WriterPosition,
) -> Result<Result<WriterPosition, ImportError>, EngineError> {
    if let ImportStep::Begin { .. } = step
        && !shared.phase.is_importing()
        && !shared.index.has_no_live_keys()
    {
        return Ok(Err(ImportError::NotEmpty));
    }
    let txn = open.database.begin_write()?;
    let meta = StoreMeta::pending(&txn)?;
    let position = match step {
        ImportStep::Begin { .. } | ImportStep::Discard => {
            let source = match step {
                ImportStep::Begin { source } => source,
                _ => Revision::FIRST,
            };
            txn.delete_table(LOG)?;
            txn.open_table(LOG)?;
            StoreMeta {
                // The log had the newest revision of this store. If the import is interrupted, the next one
                // must still end above that, or revisions would be used twice.
                compacted: shared.index.current(),
                importing: Some(source),
                ..meta
            }
            .write(&txn)?;
            txn.commit()?;
            shared.phase.set_importing(true);
            position
        }
        ImportStep::Put(entries) => {
            put(&txn, &entries)?;
            txn.commit()?;
            position
        }
        ImportStep::Finish => {
            let (survey, compacted) = finish(&txn, meta, shared.index.current())?;
            txn.commit()?;
            let current = survey.current();
            shared.expect_expiries(&survey);
            let bytes = survey.bytes;
            shared.index.replace(survey);
            shared.feed.jump(current);
            shared.phase.set_importing(false);
            WriterPosition {
                compacted,
                bytes,
                history_bytes: 0,
            }
        }
    };
    Ok(Ok(position))
}

fn put(txn: &WriteTransaction, entries: &[Entry]) -> Result<(), EngineError> {
    let mut log = txn.open_table(LOG)?;
    for entry in entries {
        let record = LogRecord {
            revision: entry.revision,
            kind: ChangeKind::Created,
            previous: Revision::ZERO,
            expiry: entry.expiry,
            key: &entry.key,
            value: &entry.value,
        };
        if log.get(entry.revision.get())?.is_some() {
            let message = format!("the source has two entries of revision {}", entry.revision);
            return Err(StoreError::Corrupt(message).into());
        }
        let len = record.stored_len();
        record.write(log.insert_reserve(entry.revision.get(), len)?.as_mut());
    }
    Ok(())
}

/// Looks at everything imported, and lets the store continue above it.
fn finish(
    txn: &WriteTransaction,
    meta: StoreMeta,
    current: Revision,
) -> Result<(IndexScan, Revision), EngineError> {
    let source = meta
        .importing
        .ok_or_else(|| StoreError::Corrupt("no import has begun".to_owned()))?;
    let log = txn.open_table(LOG)?;
    let newest = log
        .last()?
        .map_or(Revision::ZERO, |(revision, _)| Revision::new(revision.value()));
    // The source's own word for where it stands is not trusted alone: no entry may be in the future.
    // And a caller that listed nothing here at a revision must not find something at the same one.
    let past = match newest {
        Revision::ZERO => current,
        _ => current.next(),
    };
    let compacted = source.max(newest).max(past);
    let survey = IndexScan::take(&log, compacted)?;
    drop(log);
    StoreMeta {
        compacted,
        importing: None,
        ..meta
    }
    .write(txn)?;
    Ok((survey, compacted))
}

// --- FileImport ---

impl FileImport {
    pub(super) async fn ask(&self, step: ImportStep) -> Result<Revision, ImportError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(WriterJob::Import(Arc::clone(&self.token), step, answer))
            .map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

#[async_trait]
impl Import for FileImport {
    async fn put(&mut self, entries: Vec<Entry>) -> Result<(), ImportError> {
        self.ask(ImportStep::Put(entries)).await?;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Revision, ImportError> {
        self.ask(ImportStep::Finish).await
    }
}
