//! The index in memory: the newest record of each key.

use std::{collections::BTreeMap, ops::Bound};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use redb::ReadableTable;

use super::{
    engine::EngineError,
    record::{ChangeKind, LogRecord},
    tables::{FileSnapshot, missing},
};
use crate::{Change, Entry, Event, Expiry, Key, Page, Prefix, Range, ReadError, Revision, StoreError};

/// Number of keys read per lock, so that a long list does not block the writer.
const CHUNK: usize = 1000;

/// The keys of a store. Changed only by the writer, after its transaction is durable.
pub(super) struct KeyIndex(RwLock<IndexedKeys>);

#[derive(Default)]
struct IndexedKeys {
    /// Each key's newest record. Deleted keys stay until their deletion is compacted, so that older
    /// states can be read.
    newest: BTreeMap<Key, NewestRecord>,
    /// How many of them are live.
    live: usize,
    /// The commits up to here are in it.
    upto: Revision,
}

/// The newest record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewestRecord {
    pub(super) revision: Revision,
    pub(super) live: bool,
}

/// The result of a scan of the log.
pub(super) struct IndexScan {
    keys: IndexedKeys,
    /// Bytes of all records.
    pub(super) bytes: u64,
    /// Bytes of the records above the compacted revision.
    pub(super) history_bytes: u64,
    /// The live entries that expire.
    pub(super) expiring: BTreeMap<Key, (Revision, Expiry)>,
}

// --- IndexScan ---

impl IndexScan {
    /// The result for an empty store at revision `current`.
    pub(super) fn empty(current: Revision) -> Self {
        let keys = IndexedKeys {
            upto: current,
            ..IndexedKeys::default()
        };
        Self {
            keys,
            bytes: 0,
            history_bytes: 0,
            expiring: BTreeMap::new(),
        }
    }

    /// Reads and checks every record.
    pub(super) fn take(
        log: &impl ReadableTable<u64, &'static [u8]>,
        compacted: Revision,
    ) -> Result<Self, EngineError> {
        let mut survey = Self::empty(compacted);
        let mut count = 0;
        for found in log.iter()? {
            let (revision, stored) = found?;
            let record = LogRecord::read(Revision::new(revision.value()), stored.value())?;
            survey.add(&record, compacted)?;
            let bytes = stored.value().len() as u64;
            survey.bytes += bytes;
            if record.revision > compacted {
                survey.history_bytes += bytes;
            }
            count += 1;
        }
        // The engine counts too: a part of the log that is out of reach is not passed over.
        let all = log.len()?;
        if count != all {
            return Err(StoreError::Corrupt(format!("{count} records are left of {all}")).into());
        }
        Ok(survey)
    }

    fn add(&mut self, record: &LogRecord<'_>, compacted: Revision) -> Result<(), StoreError> {
        let is_known = self.keys.newest.contains_key(record.key);
        if record.revision > compacted {
            if record.revision != self.keys.upto.next() {
                return Err(missing(self.keys.upto.next()));
            }
            self.keys.upto = record.revision;
        } else if record.kind == ChangeKind::Deleted || is_known {
            return Err(StoreError::Corrupt(format!(
                "revision {} should be compacted",
                record.revision
            )));
        }
        match record.expiry {
            Some(expiry) => {
                self.expiring
                    .insert(record.owned_key()?, (record.revision, expiry));
            }
            None if is_known => {
                self.expiring.remove(record.key);
            }
            None => {}
        }
        let newest = NewestRecord {
            revision: record.revision,
            live: record.kind != ChangeKind::Deleted,
        };
        // Most records of a long history are of keys that are there already: they need no key of their own.
        if is_known {
            self.keys.replace(record.key, newest);
        } else {
            self.keys.put(record.owned_key()?, newest);
        }
        Ok(())
    }

    /// The newest revision.
    pub(super) fn current(&self) -> Revision {
        self.keys.upto
    }
}

// --- IndexedKeys ---

impl IndexedKeys {
    fn put(&mut self, key: Key, newest: NewestRecord) {
        let before = self.newest.insert(key, newest);
        self.live -= usize::from(before.is_some_and(|before| before.live));
        self.live += usize::from(newest.live);
    }

    /// The same for a key that is there.
    fn replace(&mut self, key: &str, newest: NewestRecord) {
        if let Some(known) = self.newest.get_mut(key) {
            self.live -= usize::from(known.live);
            self.live += usize::from(newest.live);
            *known = newest;
        }
    }
}

// --- KeyIndex ---

impl KeyIndex {
    pub(super) fn new(survey: IndexScan) -> Self {
        Self(RwLock::new(survey.keys))
    }

    pub(super) fn replace(&self, survey: IndexScan) {
        *self.write() = survey.keys;
    }

    pub(super) fn current(&self) -> Revision {
        self.read().upto
    }

    pub(super) fn has_no_live_keys(&self) -> bool {
        self.read().live == 0
    }

    pub(super) fn newest(&self, key: &Key) -> Option<NewestRecord> {
        self.read().newest.get(key).copied()
    }

    /// Adds durable commits.
    pub(super) fn follow(&self, events: &[Event]) {
        let mut keys = self.write();
        for event in events {
            let live = event.change != Change::Deleted;
            keys.put(
                event.key.clone(),
                NewestRecord {
                    revision: event.revision,
                    live,
                },
            );
            keys.upto = event.revision;
        }
    }

    /// Drops keys whose deletion, at these revisions, has been compacted.
    pub(super) fn forget(&self, deletions: &[(Key, Revision)]) {
        let mut keys = self.write();
        for (key, revision) in deletions {
            if keys
                .newest
                .get(key)
                .is_some_and(|newest| newest.revision == *revision)
            {
                keys.newest.remove(key);
            }
        }
    }

    /// Returns the entry of a key. `snapshot` opens a snapshot of the file.
    pub(super) fn get(
        &self,
        key: &Key,
        snapshot: impl Fn() -> Result<FileSnapshot, EngineError>,
    ) -> Result<Option<Entry>, EngineError> {
        loop {
            let Some(NewestRecord { revision, live: true }) = self.newest(key) else {
                return Ok(None);
            };
            let snapshot = snapshot()?;
            if let Some(stored) = snapshot.log.get(revision.get())? {
                return entry(key, &LogRecord::read(revision, stored.value())?);
            }
            // The record was replaced and compacted after the lookup in the index, or it is lost.
            if self.newest(key).is_some_and(|newest| newest.revision == revision) {
                return Err(missing(revision).into());
            }
        }
    }

    /// A page of what the keys under a prefix held at one revision.
    pub(super) fn range(
        &self,
        prefix: &Prefix,
        page: &Page,
        snapshot: impl Fn() -> Result<FileSnapshot, EngineError>,
    ) -> Result<Result<Range, ReadError>, EngineError> {
        let current = self.current();
        let at = page.at.unwrap_or(current);
        if at > current {
            return Ok(Err(ReadError::Future {
                requested: at,
                current,
            }));
        }
        let mut range = Range {
            entries: Vec::new(),
            revision: at,
            more: false,
        };
        let mut after = page.after.clone();
        loop {
            // Read the index before the snapshot: records in the index are then in the snapshot.
            let chunk = self.chunk(prefix, after.as_ref());
            let snapshot = snapshot()?;
            if at < snapshot.compacted {
                return Ok(Err(ReadError::Compacted {
                    requested: at,
                    oldest: snapshot.compacted,
                }));
            }
            let Some((last, _)) = chunk.last() else {
                return Ok(Ok(range));
            };
            after = Some(last.clone());
            for (key, newest) in chunk {
                let Some(entry) = entry_at(&snapshot, &key, newest, at)? else {
                    continue;
                };
                if page.limit != 0 && range.entries.len() == page.limit {
                    range.more = true;
                    return Ok(Ok(range));
                }
                range.entries.push(entry);
            }
        }
    }

    fn chunk(&self, prefix: &Prefix, after: Option<&Key>) -> Vec<(Key, NewestRecord)> {
        let start = match after {
            Some(after) if **after >= **prefix => Bound::Excluded(&**after),
            _ => Bound::Included(&**prefix),
        };
        let keys = self.read();
        let found = keys.newest.range::<str, _>((start, Bound::Unbounded));
        let under = found.take_while(|(key, _)| prefix.contains(key)).take(CHUNK);
        under.map(|(key, newest)| (key.clone(), *newest)).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, IndexedKeys> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, IndexedKeys> {
        self.0.write()
    }
}

/// Returns the value of a key at a revision that is not compacted, from its newest record.
fn entry_at(
    snapshot: &FileSnapshot,
    key: &Key,
    newest: NewestRecord,
    at: Revision,
) -> Result<Option<Entry>, EngineError> {
    let NewestRecord { mut revision, live } = newest;
    if revision <= at && !live {
        return Ok(None);
    }
    loop {
        let stored = snapshot
            .log
            .get(revision.get())?
            .ok_or_else(|| missing(revision))?;
        let record = LogRecord::read(revision, stored.value())?;
        if revision <= at {
            return entry(key, &record);
        }
        // What a creation replaced was a deletion: when that is compacted, it is no longer there to be
        // followed, and `at` is not before it.
        if record.previous == Revision::ZERO
            || record.kind == ChangeKind::Created && record.previous <= snapshot.compacted
        {
            return Ok(None);
        }
        revision = record.previous;
    }
}

/// The record as the key's entry; `None` if it is a deletion.
fn entry(key: &Key, record: &LogRecord<'_>) -> Result<Option<Entry>, EngineError> {
    if record.key != &**key {
        let LogRecord {
            revision, key: found, ..
        } = record;
        return Err(StoreError::Corrupt(format!("revision {revision} wrote {found}, not {key}")).into());
    }
    Ok(record.entry()?)
}
