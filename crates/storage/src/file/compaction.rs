//! Takes superseded records out of the log, some at a time.
//!
//! Every record names the one it replaced, so each is looked at once, when the compacted revision
//! passes it: the cost follows the history that is forgotten, not the size of the store.

use redb::{ReadableTable, WriteTransaction};

use super::{
    engine::Fault,
    record::{Kind, Record},
    tables::{BYTES, COMPACTED, FLOOR, KEYS, LOG, META},
};
use crate::Revision;

/// What one step did.
pub(super) struct Step {
    /// The oldest state that can be read now.
    pub(super) compacted: Revision,
    /// Bytes of the records removed.
    pub(super) removed: u64,
}

/// Moves the compacted revision from `from` towards `upto`, by at most `most` records. `current` and
/// `bytes` are the store's, with what this transaction has added.
pub(super) fn step(
    txn: &WriteTransaction,
    (from, upto): (Revision, Revision),
    most: usize,
    current: Revision,
    bytes: u64,
) -> Result<Step, Fault> {
    let mut log = txn.open_table(LOG)?;
    let mut keys = txn.open_table(KEYS)?;
    let passed = passed(&log, from, upto, most)?;
    let compacted = if passed.len() == most {
        passed[most - 1].revision
    } else {
        upto
    };
    let mut removed = 0;
    for record in &passed {
        for superseded in record.superseded() {
            if let Some(stored) = log.remove(superseded.get())? {
                removed += stored.value().len() as u64;
            }
        }
        if record.deleted {
            let newest = keys.get(&*record.key)?.map(|found| found.value().0);
            if newest == Some(record.revision.get()) {
                keys.remove(&*record.key)?;
            }
        }
    }
    let mut meta = txn.open_table(META)?;
    meta.insert(COMPACTED, compacted.get())?;
    meta.insert(FLOOR, current.get())?;
    meta.insert(BYTES, bytes - removed)?;
    Ok(Step { compacted, removed })
}

/// A record that the compacted revision passes.
struct Passed {
    revision: Revision,
    previous: Revision,
    key: String,
    deleted: bool,
}

impl Passed {
    /// The records that no state from this one on shows.
    fn superseded(&self) -> impl Iterator<Item = Revision> {
        let own = self.deleted.then_some(self.revision);
        (self.previous > Revision::ZERO)
            .then_some(self.previous)
            .into_iter()
            .chain(own)
    }
}

fn passed(
    log: &impl ReadableTable<u64, &'static [u8]>,
    from: Revision,
    upto: Revision,
    most: usize,
) -> Result<Vec<Passed>, Fault> {
    let mut passed = Vec::new();
    for found in log.range(from.next().get()..=upto.get())?.take(most) {
        let (revision, stored) = found?;
        let revision = Revision::new(revision.value());
        let record = Record::read(revision, stored.value())?;
        let deleted = record.kind == Kind::Deleted;
        passed.push(Passed {
            revision,
            previous: record.previous,
            key: record.key.to_owned(),
            deleted,
        });
    }
    Ok(passed)
}
