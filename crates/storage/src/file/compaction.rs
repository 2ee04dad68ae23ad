//! Compaction: removes superseded records from the log, in small steps.
//!
//! Every record names the one it replaced, so each is looked at once, when the compacted revision
//! passes it: the cost follows the history that is forgotten, not the size of the store.

use redb::{ReadableTable, WriteTransaction};

use super::{
    engine::EngineError,
    record::{ChangeKind, LogRecord},
    tables::{LOG, StoreMeta},
};
use crate::{Key, Revision};

/// The result of a step, published once it is durable.
pub(super) struct CompactionStep {
    /// The new compacted revision.
    pub(super) compacted: Revision,
    /// Bytes of the records removed.
    pub(super) removed: u64,
    /// The removed deletion records.
    pub(super) deletions: Vec<(Key, Revision)>,
}

/// Moves the compacted revision from `from` towards `upto`, by at most `max` records.
pub(super) fn step(
    txn: &WriteTransaction,
    from: Revision,
    upto: Revision,
    max: usize,
) -> Result<CompactionStep, EngineError> {
    let mut log = txn.open_table(LOG)?;
    let mut step = CompactionStep {
        compacted: from,
        removed: 0,
        deletions: Vec::new(),
    };
    let mut superseded = Vec::new();
    for found in log.range(from.next().get()..=upto.get())?.take(max) {
        let (revision, stored) = found?;
        let record = LogRecord::read(Revision::new(revision.value()), stored.value())?;
        step.compacted = record.revision;
        if record.previous > Revision::ZERO {
            superseded.push(record.previous);
        }
        if record.kind == ChangeKind::Deleted {
            superseded.push(record.revision);
            step.deletions.push((record.owned_key()?, record.revision));
        }
    }
    for revision in superseded {
        // A deletion that a later creation names as its previous one was removed with its own compaction.
        if let Some(stored) = log.remove(revision.get())? {
            step.removed += stored.value().len() as u64;
        }
    }
    let meta = StoreMeta {
        compacted: step.compacted,
        ..StoreMeta::pending(txn)?
    };
    meta.write(txn)?;
    Ok(step)
}
