//! Writes a backup of a store to a stream.

use std::{pin::pin, time::SystemTime};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{
    TransferProgress,
    layout::{BackupHeader, Encoder, FORMAT},
    snapshot::{SnapshotPart, StoreSnapshot},
};
use crate::{Entry, Key, MAX_VALUE_BYTES, ReadError, Revision, Store};

/// Bytes written at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// The summary of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// The format of the stream.
    pub format: u32,
    /// The state of the store that it holds.
    pub revision: Revision,
    /// When it was made, to the millisecond.
    pub created_at: SystemTime,
    /// What is in it.
    pub transferred: TransferProgress,
}

/// The error of a backup. `restore` rejects the incomplete stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store forgot the state that was being read, because the backup took longer than history
    /// is kept.
    #[error(
        "the state at revision {revision} was compacted after {entries} entries were read; \
         write the backup to something faster, or keep more history, and begin again"
    )]
    Compacted {
        /// The state that was being read.
        revision: Revision,
        /// The entries that were read by then.
        entries: u64,
    },
    /// The store contains a value that exceeds the limit.
    #[error(
        "the value of {key} has {bytes} bytes, more than a store takes; no backup of it could be restored"
    )]
    TooLarge {
        /// Its key.
        key: Key,
        /// Its size.
        bytes: usize,
    },
    /// An error of the store.
    #[error("cannot read the store")]
    Read(#[source] ReadError),
    /// An I/O error of the stream.
    #[error("cannot write the backup")]
    Write(#[source] std::io::Error),
}

/// Writes all entries of a store, as they are at one revision, while it continues taking writes.
///
/// `created_at` is noted in the backup as the time it was made. The stream is flushed, not closed: a caller that
/// writes to a file makes it durable and gives it its name only after this has succeeded.
pub async fn backup(
    store: &dyn Store,
    out: impl AsyncWrite,
    created_at: SystemTime,
    progress: impl FnMut(TransferProgress),
) -> Result<BackupSummary, BackupError> {
    backup_filtered(|_| true, store, out, created_at, progress).await
}

/// Writes those entries of a store whose keys `is_included` is true for; else the same as [`backup`].
pub async fn backup_filtered(
    is_included: impl Fn(&Key) -> bool,
    store: &dyn Store,
    out: impl AsyncWrite,
    created_at: SystemTime,
    mut progress: impl FnMut(TransferProgress),
) -> Result<BackupSummary, BackupError> {
    let mut out = pin!(out);
    let mut snapshot = StoreSnapshot::newest(store);
    let first = snapshot.next().await.map_err(BackupError::Read)?;
    let mut part = first.expect("a snapshot has at least one part");
    let header = BackupHeader::new(part.revision, created_at);
    let mut buffer = Vec::with_capacity(2 * CHUNK_BYTES);
    let mut encoder = Encoder::begin(header, &mut buffer);
    let mut transferred = TransferProgress::default();
    loop {
        for entry in part.entries.iter().filter(|entry| is_included(&entry.key)) {
            check_size(entry)?;
            encoder.entry(entry, &mut buffer);
            transferred.add(entry);
            if buffer.len() >= CHUNK_BYTES {
                out.write_all(&buffer).await.map_err(BackupError::Write)?;
                buffer.clear();
            }
        }
        progress(transferred);
        part = match snapshot.next().await {
            Ok(Some(part)) => part,
            Ok(None) => break,
            Err(error) => return Err(unread(error, &part, transferred)),
        };
    }
    encoder.end(&mut buffer);
    out.write_all(&buffer).await.map_err(BackupError::Write)?;
    out.flush().await.map_err(BackupError::Write)?;
    Ok(BackupSummary::new(header, transferred))
}

fn check_size(entry: &Entry) -> Result<(), BackupError> {
    let bytes = entry.value.len();
    if bytes > MAX_VALUE_BYTES {
        let key = entry.key.clone();
        return Err(BackupError::TooLarge { key, bytes });
    }
    Ok(())
}

fn unread(error: ReadError, last: &SnapshotPart, transferred: TransferProgress) -> BackupError {
    match error {
        ReadError::Compacted { .. } => BackupError::Compacted {
            revision: last.revision,
            entries: transferred.entries,
        },
        other => BackupError::Read(other),
    }
}

// --- BackupSummary ---

impl BackupSummary {
    pub(super) fn new(header: BackupHeader, transferred: TransferProgress) -> Self {
        Self {
            format: FORMAT,
            revision: header.revision,
            created_at: header.created_at(),
            transferred,
        }
    }
}
