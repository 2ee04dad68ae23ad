//! Several commits in one transaction.

use std::{collections::HashMap, time::SystemTime};

use redb::{ReadableTable, Table, WriteTransaction};

use super::{
    engine::EngineError,
    index::{KeyIndex, NewestRecord},
    journal::JournalFrame,
    record::{ChangeKind, LogRecord},
    tables::{LOG, missing},
};
use crate::{Change, CommitError, Entry, Event, Expiry, Key, Operation, Precondition, Revision, Write};

/// A transaction that commits are added to.
pub(super) struct CommitGroup<'txn> {
    log: Table<'txn, u64, &'static [u8]>,
    /// The keys as they were before the transaction.
    index: &'txn KeyIndex,
    /// The keys it has changed.
    changed: HashMap<Key, NewestRecord>,
    now: SystemTime,
    current: Revision,
    /// Its records.
    frame: JournalFrame,
    /// What the transaction has done so far.
    done: CommittedWrite,
}

/// What a transaction did, to be reported once it is durable.
#[derive(Default)]
pub(super) struct CommittedWrite {
    pub(super) events: Vec<Event>,
    /// For each event, how the entry it left behind expires.
    pub(super) expiries: Vec<Option<Expiry>>,
    /// Bytes of the records added.
    pub(super) bytes: u64,
}

// --- CommitGroup ---

impl<'txn> CommitGroup<'txn> {
    pub(super) fn begin(
        txn: &'txn WriteTransaction,
        index: &'txn KeyIndex,
        now: SystemTime,
    ) -> Result<Self, EngineError> {
        let current = index.current();
        Ok(Self {
            log: txn.open_table(LOG)?,
            index,
            changed: HashMap::new(),
            now,
            current,
            frame: JournalFrame::new(current.next()),
            done: CommittedWrite::default(),
        })
    }

    /// Applies a write, if what it expects is there. The outer error is the file's, and ends the
    /// group; the inner one is the writer's own.
    pub(super) fn apply(&mut self, write: &Write) -> Result<Result<Revision, CommitError>, EngineError> {
        let newest = self
            .changed
            .get(&write.key)
            .copied()
            .or_else(|| self.index.newest(&write.key));
        let live = newest.filter(|newest| newest.live);
        match (write.precondition, live) {
            (Precondition::Absent, None) => {}
            (Precondition::At(revision), Some(live)) if live.revision == revision => {}
            (_, None) => return Ok(Err(CommitError::Conflict(None))),
            (_, Some(live)) => return Ok(Err(CommitError::Conflict(Some(self.entry(live.revision)?)))),
        }
        let (kind, value, expiry, change) = match (&write.operation, live) {
            (Operation::Delete, _) => (ChangeKind::Deleted, &[][..], None, Change::Deleted),
            (Operation::Put { value, ttl }, live) => {
                let expiry = ttl.map(|ttl| Expiry::after(self.now, ttl));
                match live {
                    None => (
                        ChangeKind::Created,
                        &value[..],
                        expiry,
                        Change::Created(value.clone()),
                    ),
                    Some(_) => (
                        ChangeKind::Updated,
                        &value[..],
                        expiry,
                        Change::Updated(value.clone()),
                    ),
                }
            }
        };
        let revision = self.current.next();
        let previous = newest.map_or(Revision::ZERO, |newest| newest.revision);
        let record = LogRecord {
            revision,
            kind,
            previous,
            expiry,
            key: &write.key,
            value,
        };
        let stored = self.frame.push(&record);
        let len = stored.len();
        self.log.insert(revision.get(), stored)?;
        self.current = revision;
        self.changed.insert(
            write.key.clone(),
            NewestRecord {
                revision,
                live: kind != ChangeKind::Deleted,
            },
        );
        self.done.bytes += len as u64;
        self.done.events.push(Event {
            revision,
            key: write.key.clone(),
            change,
        });
        self.done.expiries.push(expiry);
        Ok(Ok(revision))
    }

    /// What was done, and the records.
    pub(super) fn finish(self) -> (CommittedWrite, JournalFrame) {
        (self.done, self.frame)
    }

    fn entry(&self, revision: Revision) -> Result<Entry, EngineError> {
        let stored = self.log.get(revision.get())?.ok_or_else(|| missing(revision))?;
        Ok(LogRecord::read(revision, stored.value())?
            .entry()?
            .ok_or_else(|| missing(revision))?)
    }
}
