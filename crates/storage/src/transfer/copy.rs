//! Copies a store to another one.

use k3_task::Clock;

use super::{
    TransferProgress,
    digest::EntryDigest,
    intake::ImportIntake,
    snapshot::{StoreSnapshot, read_back},
};
use crate::{ImportError, ReadError, Revision, Store};

/// The summary of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySummary {
    /// What the target received.
    pub transferred: TransferProgress,
    /// The state of the source that was copied.
    pub source: Revision,
    /// Commits the source took since: they are not in the target. Zero when no process wrote; on an etcd that
    /// serves others too, theirs are counted with them.
    pub missed_commits: u64,
    /// Where the target stands now: at or above the source.
    pub target: Revision,
    /// Entries whose time arrived during the copy: the target has none of them any more.
    pub expired: u64,
}

/// The error of a copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source failed, or forgot the state that was being read.
    #[error("cannot read the source")]
    Source(#[source] ReadError),
    /// The target failed, or holds something already.
    #[error("cannot fill the target")]
    Target(#[from] ImportError),
    /// The target could not be read again after the copy.
    #[error("all was copied, but the target cannot be read to check it")]
    Unchecked(#[source] ReadError),
    /// What was read from the target is not what was written to it.
    #[error("the target does not hold what was copied: {0}; do not use it, empty it and copy again")]
    Different(String),
}

/// Fills an empty store with the entries of another, as they are at one revision, and reads the
/// target again to see that they are there.
///
/// The source may continue taking writes, but they are not copied: see [`CopySummary::missed_commits`]. The
/// clock reports which entries had time to expire.
pub async fn copy(
    from: &dyn Store,
    to: &dyn Store,
    clock: &Clock,
    mut progress: impl FnMut(TransferProgress),
) -> Result<CopySummary, CopyError> {
    let mut snapshot = StoreSnapshot::newest(from);
    let first = snapshot.next().await.map_err(CopyError::Source)?;
    let mut part = first.expect("a snapshot has at least one part");
    let source = part.revision;
    let mut intake = ImportIntake::begin(to, source).await?;
    let mut put = EntryDigest::default();
    loop {
        for entry in part.entries {
            put.add(&entry);
            if let Some(transferred) = intake.add(entry).await? {
                progress(transferred);
            }
        }
        part = match snapshot.next().await.map_err(CopyError::Source)? {
            Some(part) => part,
            None => break,
        };
    }
    let (target, transferred) = intake.finish().await?;
    progress(transferred);
    let found = read_back(to, target).await.map_err(CopyError::Unchecked)?;
    let expired = put.compare(&found, clock).map_err(CopyError::Different)?;
    let newest = from
        .current_revision()
        .await
        .map_err(|error| CopyError::Source(error.into()))?;
    Ok(CopySummary {
        transferred,
        source,
        missed_commits: newest.get().saturating_sub(source.get()),
        target,
        expired,
    })
}
