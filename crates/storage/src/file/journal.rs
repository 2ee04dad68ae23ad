//! The journal: where a group of commits is made durable before the database file has it.
//!
//! A transaction of the engine that is durable by itself writes a dozen pages all over the file, and records those that it
//! frees. A group in the journal is one write to consecutive blocks that the disk has allocated already, and one sync. The
//! engine then has the group in memory only, until a checkpoint: a durable transaction, which makes everything before it
//! durable in the file. After a crash the groups that the file does not have are applied again.
//!
//! | bytes | content of a frame, which is one group and starts at a block |
//! | --- | --- |
//! | 8 | the number of the journal, which is in the mark |
//! | 4 | CRC-32 of everything below |
//! | 4 | the CRC-32 of the frame before; zero for the first after a checkpoint |
//! | 8 | the revision of the first record |
//! | 4 | length of the records |
//! | n | the records, in the order of their revisions: length (4) and a record of the log |
//!
//! Numbers are little-endian. Revisions only grow, and a checkpoint has everything before it: frames that were not overwritten
//! yet are recognized by their revisions, and those from before the store was opened, maybe of another one, by the number. A
//! frame counts only behind the frame that it was written behind.

use std::{io, sync::Arc};

use redb::{ReadableDatabase, ReadableTable};

use super::{
    directory::{StoreDirectory, StoreFile},
    engine::{EngineError, Open},
    mark::JournalId,
    options::{Durability, RepairMode},
    record::LogRecord,
    tables::{LOG, StoreMeta},
};
use crate::{Revision, StoreError};

/// The journal's name in the store's directory.
pub(super) const JOURNAL: &str = "store.redb.journal";
/// Its length. Twice as much would halve the number of checkpoints, which are few, and double what is read after a crash.
const LEN: u64 = 4 << 20;
const BLOCK: usize = 4096;
const HEADER: usize = 28;
/// Where the checksum starts.
const CHECKED: usize = 12;

/// The journal of an open store.
pub(super) struct Journal {
    directory: Arc<dyn StoreDirectory>,
    /// Of the frames that count.
    id: JournalId,
    /// `None` until the store is busy enough.
    file: Option<Box<dyn StoreFile>>,
    /// How many groups there were without a file, and of how many one is made.
    groups: u64,
    after: u64,
    /// Where the next frame is written.
    offset: u64,
    /// The checksum of the frame before.
    previous: u32,
    /// A sync has failed: what is on the disk is unknown.
    sync_failed: bool,
}

/// A group of records that becomes a frame.
pub(super) struct JournalFrame {
    bytes: Vec<u8>,
}

/// A frame that was read, and is whole.
struct StoredFrame<'a> {
    previous: u32,
    checksum: u32,
    /// The revision of the first record.
    first: u64,
    records: &'a [u8],
}

// --- Journal ---

impl Journal {
    /// The journal of a directory. One that is there from before is used at once, else one is made after so many groups.
    pub(super) fn open(directory: Arc<dyn StoreDirectory>, after: u64) -> io::Result<Self> {
        let mut journal = Self {
            directory,
            id: JournalId::new(),
            file: None,
            groups: 0,
            after,
            offset: 0,
            previous: 0,
            sync_failed: false,
        };
        if journal.is_allocated()? {
            journal.groups = after;
        }
        Ok(journal)
    }

    /// The number of its frames.
    pub(super) fn id(&self) -> JournalId {
        self.id
    }

    /// Whether the file is there, with all its blocks.
    pub(super) fn is_allocated(&self) -> io::Result<bool> {
        Ok(self.directory.open(JOURNAL)?.len()? == LEN)
    }

    /// Whether it has groups that the file may not have.
    pub(super) fn is_empty(&self) -> bool {
        self.offset == 0
    }

    /// Whether a frame can be appended.
    pub(super) fn has_space(&self, frame: &JournalFrame) -> bool {
        self.offset + frame.padded_len() as u64 <= LEN
    }

    /// Whether groups are appended.
    pub(super) fn is_ready(&self) -> bool {
        self.file.is_some()
    }

    /// Counts a group, and opens the file when there were enough. Returns whether the group can be appended.
    pub(super) fn count_group(&mut self, durability: Durability) -> bool {
        if self.file.is_some() {
            return true;
        }
        self.groups = self.groups.saturating_add(1);
        if self.groups <= self.after {
            return false;
        }
        if let Err(error) = self.prepare(durability) {
            // The file takes the groups.
            tracing::warn!(%error, "cannot allocate the store's journal");
            self.groups = 0;
        }
        self.file.is_some()
    }

    /// Appends nothing more for a while.
    pub(super) fn release(&mut self) {
        self.file = None;
        self.groups = 0;
    }

    /// Creates the file and allocates its blocks, so that appending needs no space, and gives it a number.
    fn prepare(&mut self, durability: Durability) -> io::Result<()> {
        let file = self.directory.open(JOURNAL)?;
        if file.len()? != LEN {
            file.set_len(0)?;
            let zeros = vec![0; 64 * BLOCK];
            for offset in (0..LEN).step_by(zeros.len()) {
                file.write(offset, &zeros)?;
            }
        }
        // The number alone; a frame of before must not get it. Each first frame begins with it too: whatever is there at a power
        // loss, these bytes are.
        let mut first = vec![0; BLOCK];
        first[..8].copy_from_slice(&self.id.to_bytes());
        file.write(0, &first)?;
        if durability == Durability::Synced {
            file.sync()?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Appends a group. It is durable when this returns, unless durability is relaxed.
    pub(super) fn append(&mut self, frame: JournalFrame, durability: Durability) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let len = frame.padded_len() as u64;
        let (bytes, checksum) = frame.finish(self.id, self.previous);
        file.write(self.offset, &bytes)?;
        if durability == Durability::Synced {
            file.sync().inspect_err(|_| self.sync_failed = true)?;
        }
        self.offset += len;
        self.previous = checksum;
        Ok(())
    }

    /// Called after a durable transaction of the engine: the file has everything.
    pub(super) fn reset(&mut self) {
        self.offset = 0;
        self.previous = 0;
    }

    /// Whether a sync has failed since the store was opened.
    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed
    }

    /// Applies the groups of the session before.
    pub(super) fn replay_last(
        &mut self,
        id: JournalId,
        open: &Open,
        repair: RepairMode,
    ) -> Result<(), EngineError> {
        let own = std::mem::replace(&mut self.id, id);
        self.replay(open, repair, redb::Durability::Immediate)?;
        self.id = own;
        Ok(())
    }

    /// Applies the groups that the file does not have. If that is durable, the journal is empty then.
    pub(super) fn replay(
        &mut self,
        open: &Open,
        repair: RepairMode,
        durability: redb::Durability,
    ) -> Result<(), EngineError> {
        if !self.is_allocated().map_err(redb::Error::Io)? {
            return Err(StoreError::Corrupt(format!("{JOURNAL} is missing")).into());
        }
        let bytes = self.read().map_err(redb::Error::Io)?;
        if !bytes.starts_with(&self.id.to_bytes()) {
            let message = format!("{JOURNAL} is damaged, or is not the one that belongs to the store's file");
            return Err(StoreError::Corrupt(message).into());
        }
        let mut newest = newest(open)?;
        let mut txn = open.database.begin_write()?;
        txn.set_quick_repair(repair == RepairMode::Record);
        let mut log = txn.open_table(LOG)?;
        let mut rest = &bytes[..];
        let mut previous = 0;
        let mut applied = 0;
        while let Some(frame) = StoredFrame::parse(rest, self.id).filter(|frame| frame.previous == previous) {
            for (revision, stored) in frame.records() {
                if revision <= newest {
                    continue;
                }
                if revision != newest.next() {
                    let message =
                        format!("{JOURNAL} continues at revision {revision}, but the store ends at {newest}");
                    return Err(StoreError::Corrupt(message).into());
                }
                log.insert(revision.get(), stored)?;
                newest = revision;
                applied += 1;
            }
            previous = frame.checksum;
            rest = rest.get(frame.padded_len()..).unwrap_or_default();
        }
        drop(log);
        check_rest(rest, self.id, newest)?;
        if applied == 0 {
            txn.abort()?;
            self.reset();
            return Ok(());
        }
        if let redb::Durability::None = durability {
            if (LEN - rest.len() as u64) != self.offset {
                // The frame of a group that failed is whole: it counts, but not before there is space.
                return Err(redb::Error::Io(io::ErrorKind::StorageFull.into()).into());
            }
            txn.set_durability(durability)?;
            return Ok(txn.commit()?);
        }
        txn.commit()?;
        self.reset();
        tracing::info!(commits = applied, revision = %newest, "applied the store's journal");
        Ok(())
    }

    /// All bytes of the journal.
    fn read(&self) -> io::Result<Vec<u8>> {
        let file = self.directory.open(JOURNAL)?;
        file.forget_cached()?;
        let mut bytes = vec![0; usize::try_from(LEN).unwrap_or_default()];
        file.read(0, &mut bytes)?;
        Ok(bytes)
    }
}

/// Reports a damaged frame: what is behind the last one that counts must be from before a checkpoint, or was never written whole.
fn check_rest(mut rest: &[u8], id: JournalId, newest: Revision) -> Result<(), StoreError> {
    while !rest.is_empty() {
        let last = StoredFrame::parse(rest, id).and_then(|frame| frame.records().last());
        if last.is_some_and(|(revision, _)| revision > newest) {
            let message = format!("{JOURNAL} is damaged after revision {newest}");
            return Err(StoreError::Corrupt(message));
        }
        rest = rest.get(BLOCK..).unwrap_or_default();
    }
    Ok(())
}

/// The newest revision in the file.
pub(super) fn newest(open: &Open) -> Result<Revision, EngineError> {
    let txn = open.database.begin_read()?;
    let compacted = StoreMeta::read(&txn)?.compacted;
    let log = txn.open_table(LOG)?;
    let last = log.last()?;
    let last = last.map_or(Revision::ZERO, |(revision, _)| Revision::new(revision.value()));
    Ok(last.max(compacted))
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(BLOCK)
}

// --- JournalFrame ---

impl JournalFrame {
    /// A group whose first record has this revision.
    pub(super) fn new(first: Revision) -> Self {
        let mut bytes = Vec::with_capacity(4 * BLOCK);
        bytes.resize(HEADER, 0);
        bytes[16..24].copy_from_slice(&first.get().to_le_bytes());
        Self { bytes }
    }

    /// Adds a record, and returns its bytes.
    pub(super) fn push(&mut self, record: &LogRecord<'_>) -> &[u8] {
        let len = record.stored_len();
        let stored_len = u32::try_from(len).expect("a record is smaller than the largest value and key");
        self.bytes.extend_from_slice(&stored_len.to_le_bytes());
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        record.write(&mut self.bytes[start..]);
        &self.bytes[start..]
    }

    fn padded_len(&self) -> usize {
        padded(self.bytes.len())
    }

    /// The frame, and its checksum.
    fn finish(mut self, id: JournalId, previous: u32) -> (Vec<u8>, u32) {
        let len = u32::try_from(self.bytes.len() - HEADER).expect("a group is smaller than 4 GiB");
        self.bytes[..8].copy_from_slice(&id.to_bytes());
        self.bytes[12..16].copy_from_slice(&previous.to_le_bytes());
        self.bytes[24..28].copy_from_slice(&len.to_le_bytes());
        let checksum = crc32fast::hash(&self.bytes[CHECKED..]);
        self.bytes[8..CHECKED].copy_from_slice(&checksum.to_le_bytes());
        self.bytes.resize(self.padded_len(), 0);
        (self.bytes, checksum)
    }
}

// --- StoredFrame ---

impl<'a> StoredFrame<'a> {
    /// The frame that these bytes begin with, if it is whole.
    fn parse(bytes: &'a [u8], id: JournalId) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let number =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if !header.starts_with(&id.to_bytes()) {
            return None;
        }
        let len = number(24) as usize;
        let records = rest.get(..len)?;
        let checksum = number(8);
        if crc32fast::hash(&bytes[CHECKED..HEADER + len]) != checksum {
            return None;
        }
        Some(Self {
            previous: number(12),
            checksum,
            first: u64::from(number(16)) | u64::from(number(20)) << 32,
            records,
        })
    }

    fn padded_len(&self) -> usize {
        padded(HEADER + self.records.len())
    }

    /// The records, with their revisions.
    fn records(&self) -> impl Iterator<Item = (Revision, &'a [u8])> {
        let mut rest = self.records;
        let records = std::iter::from_fn(move || {
            let (len, after) = rest.split_first_chunk::<4>()?;
            let (record, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            Some(record)
        });
        (self.first..).map(Revision::new).zip(records)
    }
}
