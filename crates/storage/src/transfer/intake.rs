//! Fills a store with entries that arrive one by one.

use super::TransferProgress;
use crate::{Entry, Import, ImportError, Revision, Store};

/// Entries put at a time.
const BATCH: usize = 500;
/// Bytes put at a time, give or take the last entry.
const BATCH_BYTES: usize = 1024 * 1024;

/// An import, with the entries that wait to be put together.
pub(super) struct ImportIntake {
    import: Box<dyn Import>,
    waiting: Vec<Entry>,
    waiting_bytes: usize,
    /// What was put so far.
    transferred: TransferProgress,
}

// --- ImportIntake ---

impl ImportIntake {
    /// Begins to fill an empty store with the state of another at revision `source`.
    pub(super) async fn begin(to: &dyn Store, source: Revision) -> Result<Self, ImportError> {
        Ok(Self {
            import: to.begin_import(source).await?,
            waiting: Vec::new(),
            waiting_bytes: 0,
            transferred: TransferProgress::default(),
        })
    }

    /// Takes an entry. Answers the progress of the import whenever a batch was put.
    pub(super) async fn add(&mut self, entry: Entry) -> Result<Option<TransferProgress>, ImportError> {
        self.waiting_bytes += entry.key.len() + entry.value.len();
        self.transferred.add(&entry);
        self.waiting.push(entry);
        if self.waiting.len() < BATCH && self.waiting_bytes < BATCH_BYTES {
            return Ok(None);
        }
        self.put().await?;
        Ok(Some(self.transferred))
    }

    /// Opens the store for use: only when everything that should be in it has been added. Answers
    /// with where it stands.
    pub(super) async fn finish(mut self) -> Result<(Revision, TransferProgress), ImportError> {
        self.put().await?;
        Ok((self.import.finish().await?, self.transferred))
    }

    async fn put(&mut self) -> Result<(), ImportError> {
        self.waiting_bytes = 0;
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.import.put(std::mem::take(&mut self.waiting)).await
    }
}
