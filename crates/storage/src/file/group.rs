//! Several commits in one transaction.

use std::time::SystemTime;

use redb::{ReadableTable, Table, WriteTransaction};

use super::{
    engine::Fault,
    record::{Kind, Record},
    tables::{EXPIRING, KEYS, KeyState, LOG},
};
use crate::{Change, CommitError, Entry, Event, Expect, Expiry, Key, Operation, Revision, StoreError, Write};

/// The tables of a transaction, and where the store stands within it.
pub(super) struct Group<'txn> {
    keys: Table<'txn, &'static str, (u64, u8)>,
    log: Table<'txn, u64, &'static [u8]>,
    expiring: Table<'txn, &'static str, u64>,
    now: SystemTime,
    current: Revision,
    /// What the transaction has done so far.
    pub(super) done: Done,
}

/// What a transaction did, to be told once it is durable.
#[derive(Default)]
pub(super) struct Done {
    pub(super) events: Vec<Event>,
    /// For each event, how the entry it left behind expires.
    pub(super) expiries: Vec<Option<Expiry>>,
    /// Bytes of the records added.
    pub(super) bytes: u64,
}

/// What stands under a key.
struct Standing {
    revision: Revision,
    state: KeyState,
}

// --- Group ---

impl<'txn> Group<'txn> {
    pub(super) fn begin(
        txn: &'txn WriteTransaction,
        current: Revision,
        now: SystemTime,
    ) -> Result<Self, Fault> {
        Ok(Self {
            keys: txn.open_table(KEYS)?,
            log: txn.open_table(LOG)?,
            expiring: txn.open_table(EXPIRING)?,
            now,
            current,
            done: Done::default(),
        })
    }

    /// Applies a write, if what it expects is there. The outer error is the file's, and ends the
    /// group; the inner one is the writer's own.
    pub(super) fn apply(&mut self, write: &Write) -> Result<Result<Revision, CommitError>, Fault> {
        let standing = self.standing(&write.key)?;
        let live = standing
            .as_ref()
            .filter(|standing| standing.state != KeyState::Deleted);
        match (write.expect, live) {
            (Expect::Absent, None) => {}
            (Expect::At(revision), Some(live)) if live.revision == revision => {}
            (_, None) => return Ok(Err(CommitError::Conflict(None))),
            (_, Some(live)) => return Ok(Err(CommitError::Conflict(Some(self.entry(live.revision)?)))),
        }
        let was_expiring = live.is_some_and(|live| live.state == KeyState::Expiring);
        let (kind, value, expiry, change) = match (&write.operation, live) {
            (Operation::Delete, _) => (Kind::Deleted, &[][..], None, Change::Deleted),
            (Operation::Put { value, ttl }, live) => {
                let expiry = ttl.map(|ttl| Expiry::after(self.now, ttl));
                match live {
                    None => (Kind::Created, &value[..], expiry, Change::Created(value.clone())),
                    Some(_) => (Kind::Updated, &value[..], expiry, Change::Updated(value.clone())),
                }
            }
        };
        let revision = self.current.next();
        let previous = standing.map_or(Revision::ZERO, |standing| standing.revision);
        let record = Record {
            revision,
            kind,
            previous,
            expiry,
            key: &write.key,
            value,
        };
        self.append(&record, was_expiring)?;
        self.current = revision;
        self.done.events.push(Event {
            revision,
            key: write.key.clone(),
            change,
        });
        self.done.expiries.push(expiry);
        Ok(Ok(revision))
    }

    fn append(&mut self, record: &Record<'_>, was_expiring: bool) -> Result<(), Fault> {
        let revision = record.revision.get();
        let len = record.stored_len();
        record.write(self.log.insert_reserve(revision, len)?.as_mut());
        let state = KeyState::of(record);
        self.keys.insert(record.key, (revision, state.code()))?;
        if state == KeyState::Expiring {
            self.expiring.insert(record.key, revision)?;
        } else if was_expiring {
            self.expiring.remove(record.key)?;
        }
        self.done.bytes += len as u64;
        Ok(())
    }

    fn standing(&self, key: &Key) -> Result<Option<Standing>, Fault> {
        let Some(found) = self.keys.get(&**key)? else {
            return Ok(None);
        };
        let (revision, state) = found.value();
        Ok(Some(Standing {
            revision: Revision::new(revision),
            state: KeyState::from_code(state)?,
        }))
    }

    fn entry(&self, revision: Revision) -> Result<Entry, Fault> {
        let lost = || StoreError::Corrupt(format!("the record of revision {revision} is missing"));
        let stored = self.log.get(revision.get())?.ok_or_else(lost)?;
        Ok(Record::read(revision, stored.value())?
            .entry()?
            .ok_or_else(lost)?)
    }
}
