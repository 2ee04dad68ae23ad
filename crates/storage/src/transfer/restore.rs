//! Restores a store from a stream.

use std::pin::pin;

use tokio::io::AsyncRead;

use super::{
    BackupSummary, TransferProgress,
    intake::ImportIntake,
    reader::{BackupReader, BackupStreamError},
};
use crate::{ImportError, Revision, Store};

/// The summary of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSummary {
    /// The backup.
    pub backup: BackupSummary,
    /// Where the store stands now: at or above the backup's revision.
    pub revision: Revision,
}

/// Why a backup was not restored. Unless the target was refused, or the backup already at its first
/// bytes, the target stays closed until a backup is restored into it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup is invalid.
    #[error(transparent)]
    Stream(#[from] BackupStreamError),
    /// An error of the target store.
    #[error("cannot restore into the target")]
    Import(#[from] ImportError),
}

/// Fills an empty store from a backup, which is checked as it is read. The store can be used only
/// when all of it has arrived and was right.
pub async fn restore(
    input: impl AsyncRead,
    to: &dyn Store,
    mut progress: impl FnMut(TransferProgress),
) -> Result<RestoreSummary, RestoreError> {
    let input = pin!(input);
    let (mut reader, header) = BackupReader::begin(input).await?;
    let mut intake = ImportIntake::begin(to, header.revision).await?;
    while let Some(entry) = reader.next().await? {
        if let Some(transferred) = intake.add(entry).await? {
            progress(transferred);
        }
    }
    let (revision, transferred) = intake.finish().await?;
    progress(transferred);
    Ok(RestoreSummary {
        backup: BackupSummary::new(header, transferred),
        revision,
    })
}

/// Checks a whole backup and reports what it holds, without a store.
pub async fn inspect(input: impl AsyncRead) -> Result<BackupSummary, BackupStreamError> {
    let input = pin!(input);
    let (mut reader, header) = BackupReader::begin(input).await?;
    let mut transferred = TransferProgress::default();
    while let Some(entry) = reader.next().await? {
        transferred.add(&entry);
    }
    Ok(BackupSummary::new(header, transferred))
}
