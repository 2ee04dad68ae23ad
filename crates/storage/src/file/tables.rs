//! Where items stand in the file, and how it is read.
//!
//! There are the log, with a record for each revision, and a few numbers. Which record is a key's newest
//! is not on disk: the index in memory knows, and learns it from the log when the store opens. A commit
//! so writes at the end of the log and nowhere else.

use redb::{ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::{engine::EngineError, record::LogRecord};
use crate::{Event, HistoryMark, Prefix, Revision, StoreError, WatchError};

/// Revision -> record. Every revision above the compacted one has its record; at or below it only those
/// that are a key's newest value.
pub(super) const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");

/// The mark of compactors under an empty key, as revision and time. Older programs do not know this table and leave it alone.
const HISTORY_MARK: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("history_mark");

const FORMAT: &str = "format";
const COMPACTED: &str = "compacted";
const IMPORTING: &str = "importing";
/// A checksum of the other numbers.
const CHECK: &str = "check";

/// What is known of the file beside its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreMeta {
    /// The format of the data.
    pub(super) format: u32,
    /// The oldest state that can be read. The store never stands below it, also when compaction took
    /// the newest record, a deletion, out of the log.
    pub(super) compacted: Revision,
    /// While an import is under way, where its source stands.
    pub(super) importing: Option<Revision>,
}

/// The file at one moment. Reading it never blocks the writer, nor the other way round.
pub(super) struct FileSnapshot {
    pub(super) log: ReadOnlyTable<u64, &'static [u8]>,
    pub(super) compacted: Revision,
}

// --- StoreMeta ---

impl StoreMeta {
    /// Of a new store.
    pub(super) fn new(format: u32) -> Self {
        Self {
            format,
            compacted: Revision::FIRST,
            importing: None,
        }
    }

    /// The format alone, which is all that can be read of data that is too new; `None` for no data.
    pub(super) fn format(txn: &ReadTransaction) -> Result<Option<u32>, EngineError> {
        match txn.open_table(META) {
            Ok(meta) => {
                let format = meta.get(FORMAT)?.map(|number| number.value());
                Ok(format.map(|format| u32::try_from(format).unwrap_or(u32::MAX)))
            }
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn read(txn: &ReadTransaction) -> Result<Self, EngineError> {
        Self::parse(&txn.open_table(META)?)
    }

    /// What the transaction has made of it so far.
    pub(super) fn pending(txn: &redb::WriteTransaction) -> Result<Self, EngineError> {
        Self::parse(&txn.open_table(META)?)
    }

    fn parse(table: &impl ReadableTable<&'static str, u64>) -> Result<Self, EngineError> {
        let number = |name| -> Result<u64, EngineError> {
            let missing = || StoreError::Corrupt(format!("the number '{name}' is missing"));
            Ok(table.get(name)?.ok_or_else(missing)?.value())
        };
        let meta = Self {
            format: u32::try_from(number(FORMAT)?).unwrap_or(u32::MAX),
            compacted: Revision::new(number(COMPACTED)?),
            importing: table.get(IMPORTING)?.map(|source| Revision::new(source.value())),
        };
        if number(CHECK)? != meta.checksum() {
            return Err(StoreError::Corrupt("its numbers do not match their checksum".to_owned()).into());
        }
        Ok(meta)
    }

    pub(super) fn write(&self, txn: &redb::WriteTransaction) -> Result<(), EngineError> {
        let mut table = txn.open_table(META)?;
        table.insert(FORMAT, u64::from(self.format))?;
        table.insert(COMPACTED, self.compacted.get())?;
        match self.importing {
            Some(source) => table.insert(IMPORTING, source.get())?,
            None => table.remove(IMPORTING)?,
        };
        table.insert(CHECK, self.checksum())?;
        Ok(())
    }

    fn checksum(&self) -> u64 {
        let importing = self.importing.map_or(u64::MAX, Revision::get);
        let mut hasher = crc32fast::Hasher::new();
        for number in [u64::from(self.format), self.compacted.get(), importing] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().into()
    }
}

/// The mark of compactors, if there is one.
pub(super) fn read_history_mark(txn: &ReadTransaction) -> Result<Option<HistoryMark>, EngineError> {
    match txn.open_table(HISTORY_MARK) {
        Ok(table) => Ok(table.get("")?.map(|stored| {
            let (revision, time_ms) = stored.value();
            HistoryMark {
                revision: Revision::new(revision),
                time_ms,
            }
        })),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn write_history_mark(txn: &redb::WriteTransaction, mark: HistoryMark) -> Result<(), EngineError> {
    let mut table = txn.open_table(HISTORY_MARK)?;
    table.insert("", (mark.revision.get(), mark.time_ms))?;
    Ok(())
}

// --- FileSnapshot ---

impl FileSnapshot {
    pub(super) fn take(engine: &redb::Database) -> Result<Self, EngineError> {
        let txn = engine.begin_read()?;
        Ok(Self {
            compacted: StoreMeta::read(&txn)?.compacted,
            log: txn.open_table(LOG)?,
        })
    }

    pub(super) fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<Result<(Vec<Event>, Revision), WatchError>, EngineError> {
        if after < self.compacted {
            return Ok(Err(WatchError::Compacted {
                after,
                oldest: self.compacted,
            }));
        }
        let mut events = Vec::new();
        let mut reached = after;
        for found in self.log.range(after.next().get()..=upto.get())? {
            let (revision, stored) = found?;
            let record = LogRecord::read(Revision::new(revision.value()), stored.value())?;
            if record.revision != reached.next() {
                return Err(missing(reached.next()).into());
            }
            reached = record.revision;
            if prefix.contains(record.key) {
                events.push(record.event()?);
                if events.len() == limit {
                    return Ok(Ok((events, reached)));
                }
            }
        }
        if reached != upto {
            return Err(missing(reached.next()).into());
        }
        Ok(Ok((events, upto)))
    }
}

/// A record that should be there is not.
pub(super) fn missing(revision: Revision) -> StoreError {
    StoreError::Corrupt(format!("the record of revision {revision} is missing"))
}
