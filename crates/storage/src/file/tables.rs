//! Where things stand in the file, and how a state is read from it.
//!
//! Each value is stored once, in the log under its revision; a key only names the revision that wrote
//! it last. Old states are found by following a record's `previous`.

use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};

use super::{
    engine::Fault,
    record::{Kind, Record},
};
use crate::{Entry, Event, Key, Page, Prefix, Range, ReadError, Revision, StoreError, WatchError};

/// Key -> the revision of its newest record, and what that record made of it. Deleted keys stay until
/// their deletion is compacted, so that older states can be read.
pub(super) const KEYS: TableDefinition<'_, &str, (u64, u8)> = TableDefinition::new("keys");
/// Revision -> record.
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
/// The live keys whose entries expire -> the revision of their newest record.
pub(super) const EXPIRING: TableDefinition<'_, &str, u64> = TableDefinition::new("expiring");
/// The numbers below.
pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The format of the data.
pub(super) const FORMAT: &str = "format";
/// The oldest state that can be read.
pub(super) const COMPACTED: &str = "compacted";
/// The newest revision when compaction last ran: the store never stands below it, even when
/// compaction took the newest record, a deletion, out of the log.
pub(super) const FLOOR: &str = "floor";
/// Bytes of all records up to the floor.
pub(super) const BYTES: &str = "bytes";
/// Present while an import is under way: the revision its source stands at.
pub(super) const IMPORTING: &str = "importing";

/// What the newest record made of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    Deleted,
    Live,
    Expiring,
}

/// The store at one moment. Reading it never blocks the writer, nor the other way round.
pub(super) struct Snapshot {
    keys: ReadOnlyTable<&'static str, (u64, u8)>,
    log: ReadOnlyTable<u64, &'static [u8]>,
    pub(super) current: Revision,
    pub(super) compacted: Revision,
}

// --- KeyState ---

impl KeyState {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Deleted => 0,
            Self::Live => 1,
            Self::Expiring => 2,
        }
    }

    pub(super) fn of(record: &Record<'_>) -> Self {
        match (record.kind, record.expiry) {
            (Kind::Deleted, _) => Self::Deleted,
            (_, None) => Self::Live,
            (_, Some(_)) => Self::Expiring,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, StoreError> {
        match code {
            0 => Ok(Self::Deleted),
            1 => Ok(Self::Live),
            2 => Ok(Self::Expiring),
            _ => Err(StoreError::Corrupt(format!("a key has the unknown state {code}"))),
        }
    }
}

/// Makes the tables of an empty file.
pub(super) fn create(txn: &WriteTransaction, format: u32) -> Result<(), redb::Error> {
    txn.open_table(KEYS)?;
    txn.open_table(LOG)?;
    txn.open_table(EXPIRING)?;
    let mut meta = txn.open_table(META)?;
    meta.insert(FORMAT, u64::from(format))?;
    meta.insert(COMPACTED, Revision::FIRST.get())?;
    meta.insert(FLOOR, Revision::FIRST.get())?;
    meta.insert(BYTES, 0)?;
    Ok(())
}

/// A number from the meta table; `None` if it, or the table, is not there.
pub(super) fn meta(txn: &ReadTransaction, name: &str) -> Result<Option<u64>, redb::Error> {
    match txn.open_table(META) {
        Ok(meta) => Ok(meta.get(name)?.map(|number| number.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

// --- Snapshot ---

impl Snapshot {
    pub(super) fn take(engine: &redb::Database) -> Result<Self, Fault> {
        let txn = engine.begin_read()?;
        let number = |name| -> Result<Revision, Fault> {
            let missing = || StoreError::Corrupt(format!("the number '{name}' is missing"));
            Ok(Revision::new(meta(&txn, name)?.ok_or_else(missing)?))
        };
        let (compacted, floor) = (number(COMPACTED)?, number(FLOOR)?);
        let log = txn.open_table(LOG)?;
        let newest = log
            .last()?
            .map_or(Revision::ZERO, |(revision, _)| Revision::new(revision.value()));
        Ok(Self {
            keys: txn.open_table(KEYS)?,
            log,
            current: newest.max(floor),
            compacted,
        })
    }

    pub(super) fn get(&self, key: &Key) -> Result<Option<Entry>, Fault> {
        let Some(found) = self.keys.get(&**key)? else {
            return Ok(None);
        };
        let (revision, state) = found.value();
        if KeyState::from_code(state)? == KeyState::Deleted {
            return Ok(None);
        }
        self.entry(key, Revision::new(revision))
    }

    pub(super) fn range(&self, prefix: &Prefix, page: &Page) -> Result<Result<Range, ReadError>, Fault> {
        let at = page.at.unwrap_or(self.current);
        if at > self.current {
            return Ok(Err(ReadError::Future {
                asked: at,
                current: self.current,
            }));
        }
        if at < self.compacted {
            return Ok(Err(ReadError::Compacted {
                asked: at,
                oldest: self.compacted,
            }));
        }
        let start = match &page.after {
            Some(after) if **after >= **prefix => Bound::Excluded(&**after),
            _ => Bound::Included(&**prefix),
        };
        let mut range = Range {
            entries: Vec::new(),
            revision: at,
            more: false,
        };
        for found in self.keys.range::<&str>((start, Bound::Unbounded))? {
            let (key, newest) = found?;
            if !prefix.contains(key.value()) {
                break;
            }
            let (revision, state) = newest.value();
            let newest = (Revision::new(revision), KeyState::from_code(state)?);
            let Some(entry) = self.entry_at(key.value(), newest, at)? else {
                continue;
            };
            if page.limit != 0 && range.entries.len() == page.limit {
                range.more = true;
                break;
            }
            range.entries.push(entry);
        }
        Ok(Ok(range))
    }

    /// What a key held at a revision that is not compacted, given its newest record.
    fn entry_at(
        &self,
        key: &str,
        newest: (Revision, KeyState),
        at: Revision,
    ) -> Result<Option<Entry>, Fault> {
        let (mut revision, state) = newest;
        if revision <= at && state == KeyState::Deleted {
            return Ok(None);
        }
        while revision > at {
            let stored = self.stored(revision)?;
            let record = Record::read(revision, stored.value())?;
            // What a creation replaced was a deletion: when that is compacted, it is no longer there
            // to be followed, and `at` is not before it.
            if record.kind == Kind::Created && record.previous <= self.compacted {
                return Ok(None);
            }
            revision = record.previous;
        }
        self.entry(key, revision)
    }

    pub(super) fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<Result<(Vec<Event>, Revision), WatchError>, Fault> {
        if after < self.compacted {
            return Ok(Err(WatchError::Compacted {
                after,
                oldest: self.compacted,
            }));
        }
        let mut events = Vec::new();
        for found in self.log.range(after.next().get()..=upto.get())? {
            let (revision, stored) = found?;
            let revision = Revision::new(revision.value());
            let record = Record::read(revision, stored.value())?;
            if prefix.contains(record.key) {
                events.push(record.event()?);
                if events.len() == limit {
                    return Ok(Ok((events, revision)));
                }
            }
        }
        Ok(Ok((events, upto)))
    }

    fn entry(&self, key: &str, revision: Revision) -> Result<Option<Entry>, Fault> {
        let stored = self.stored(revision)?;
        let record = Record::read(revision, stored.value())?;
        if record.key != key {
            let found = record.key;
            return Err(StoreError::Corrupt(format!("revision {revision} wrote {found}, not {key}")).into());
        }
        Ok(record.entry()?)
    }

    fn stored(&self, revision: Revision) -> Result<redb::AccessGuard<'_, &'static [u8]>, Fault> {
        let lost = || StoreError::Corrupt(format!("the record of revision {revision} is missing"));
        Ok(self.log.get(revision.get())?.ok_or_else(lost)?)
    }
}
