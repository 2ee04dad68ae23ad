//! Moving the entries of a store: into a stream and back, or straight into another store.
//!
//! Guarantees: a transfer is a snapshot of the source at one revision, while the source accepts writes; a corrupt stream is
//! detected before its target can be used, and the error contains the offset; an incomplete target stays closed (see
//! [`Store::begin_import`]); memory is bounded, whatever the size of the store and the claims of a hostile stream.
//!
//! Nothing here opens files or makes backups at a time of its own: streams are the caller's. What a
//! stream looks like is specified byte by byte in `docs/backup-format.md`.
//!
//! [`Store::begin_import`]: crate::Store::begin_import

mod backup;
mod comparison;
mod copy;
mod digest;
mod intake;
mod layout;
mod reader;
mod restore;
mod snapshot;

#[cfg(test)]
mod tests;

pub use self::{
    backup::{BackupError, BackupSummary, backup, backup_filtered},
    comparison::{CompareError, compare},
    copy::{CopyError, CopySummary, copy},
    reader::BackupStreamError,
    restore::{RestoreError, RestoreSummary, inspect, restore},
};

/// Progress of a transfer, reported after each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// Entries moved so far.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

// --- TransferProgress ---

impl TransferProgress {
    fn add(&mut self, entry: &crate::Entry) {
        self.entries += 1;
        self.bytes += (entry.key.len() + entry.value.len()) as u64;
    }
}
