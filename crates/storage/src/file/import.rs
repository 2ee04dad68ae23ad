//! Fills an empty store with the entries of another.

use std::sync::{Arc, mpsc};

use async_trait::async_trait;
use redb::{ReadableTable, WriteTransaction};
use tokio::sync::oneshot;

use super::{
    engine::{Fault, Open},
    record::{Kind, Record},
    store::Shared,
    tables::{BYTES, COMPACTED, EXPIRING, FLOOR, IMPORTING, KEYS, KeyState, LOG, META},
    writer::{Job, Position},
};
use crate::{Entry, Import, ImportError, Revision, StoreError};

/// What an import asks of the writer, in this order.
pub(super) enum ImportStep {
    Begin { source: Revision },
    Put(Vec<Entry>),
    Finish,
}

pub(super) struct FileImport {
    pub(super) jobs: mpsc::Sender<Job>,
}

/// Performs a step in a transaction of its own, and tells where the store stands then.
pub(super) fn perform(
    shared: &Arc<Shared>,
    open: &Open,
    step: ImportStep,
    position: Position,
) -> Result<Result<Position, ImportError>, Fault> {
    let txn = open.database.begin_write()?;
    let after = match step {
        ImportStep::Begin { source } => {
            if !shared.phase.is_importing() && !is_empty(&txn)? {
                txn.abort()?;
                return Ok(Err(ImportError::NotEmpty));
            }
            clear(&txn, source)?;
            Position { bytes: 0, ..position }
        }
        ImportStep::Put(entries) => {
            let added = put(&txn, &entries)?;
            Position {
                bytes: position.bytes + added,
                ..position
            }
        }
        ImportStep::Finish => finish(&txn, position)?,
    };
    let importing = txn.open_table(META)?.get(IMPORTING)?.is_some();
    txn.commit()?;
    shared.phase.set_importing(importing);
    if !importing {
        shared.feed.jump(after.current);
        shared.load_deadlines(open)?;
    }
    Ok(Ok(after))
}

fn is_empty(txn: &WriteTransaction) -> Result<bool, Fault> {
    for found in txn.open_table(KEYS)?.iter()? {
        if KeyState::from_code(found?.1.value().1)? != KeyState::Deleted {
            return Ok(false);
        }
    }
    Ok(true)
}

fn clear(txn: &WriteTransaction, source: Revision) -> Result<(), Fault> {
    txn.delete_table(KEYS)?;
    txn.delete_table(LOG)?;
    txn.delete_table(EXPIRING)?;
    txn.open_table(KEYS)?;
    txn.open_table(LOG)?;
    txn.open_table(EXPIRING)?;
    txn.open_table(META)?.insert(IMPORTING, source.get())?;
    Ok(())
}

fn put(txn: &WriteTransaction, entries: &[Entry]) -> Result<u64, Fault> {
    let (mut keys, mut log) = (txn.open_table(KEYS)?, txn.open_table(LOG)?);
    let mut expiring = txn.open_table(EXPIRING)?;
    let mut added = 0;
    for entry in entries {
        let record = Record {
            revision: entry.revision,
            kind: Kind::Created,
            previous: Revision::ZERO,
            expiry: entry.expiry,
            key: &entry.key,
            value: &entry.value,
        };
        let (revision, state) = (entry.revision.get(), KeyState::of(&record));
        let len = record.stored_len();
        let twice = |what: &str| StoreError::Corrupt(format!("the source has {what} twice"));
        if log.get(revision)?.is_some() {
            return Err(twice(&format!("revision {revision}")).into());
        }
        record.write(log.insert_reserve(revision, len)?.as_mut());
        if keys.insert(&*entry.key, (revision, state.code()))?.is_some() {
            return Err(twice(&entry.key).into());
        }
        if state == KeyState::Expiring {
            expiring.insert(&*entry.key, revision)?;
        }
        added += len as u64;
    }
    Ok(added)
}

fn finish(txn: &WriteTransaction, position: Position) -> Result<Position, Fault> {
    let mut meta = txn.open_table(META)?;
    let source = meta
        .remove(IMPORTING)?
        .map(|source| Revision::new(source.value()));
    let source = source.ok_or_else(|| StoreError::Corrupt("no import has begun".to_owned()))?;
    let newest = txn
        .open_table(LOG)?
        .last()?
        .map_or(Revision::ZERO, |(revision, _)| Revision::new(revision.value()));
    // The source's own word for where it stands is not trusted alone: no entry may be in the future.
    let current = source.max(newest).max(position.current);
    meta.insert(COMPACTED, current.get())?;
    meta.insert(FLOOR, current.get())?;
    meta.insert(BYTES, position.bytes)?;
    Ok(Position {
        current,
        compacted: current,
        bytes: position.bytes,
    })
}

// --- FileImport ---

impl FileImport {
    pub(super) async fn ask(&self, step: ImportStep) -> Result<Revision, ImportError> {
        let (answer, answered) = oneshot::channel();
        self.jobs
            .send(Job::Import(step, answer))
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
