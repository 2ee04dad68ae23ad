//! Compares a restored store with its backup.

use std::pin::pin;

use k3_task::Clock;
use tokio::io::AsyncRead;

use super::{
    digest::EntryDigest,
    reader::{BackupReader, BackupStreamError},
    snapshot::read_back,
};
use crate::{ReadError, Revision, Store};

/// The error of a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The backup is invalid.
    #[error(transparent)]
    Stream(#[from] BackupStreamError),
    /// The store cannot be read.
    #[error("the store cannot be read to compare it")]
    Store(#[from] ReadError),
    /// The store differs from the backup.
    #[error("the store does not hold what the backup does: {0}")]
    Different(String),
}

/// Reads a backup and the store that was filled from it, as the store was at revision `at`, and compares their keys and
/// values. Answers with how many entries have expired since.
pub async fn compare(
    input: impl AsyncRead,
    store: &dyn Store,
    at: Revision,
    clock: &Clock,
) -> Result<u64, CompareError> {
    let input = pin!(input);
    let (mut reader, _) = BackupReader::begin(input).await?;
    let mut put = EntryDigest::default();
    while let Some(entry) = reader.next().await? {
        put.add(&entry);
    }
    let found = read_back(store, at).await?;
    put.compare(&found, clock).map_err(CompareError::Different)
}
