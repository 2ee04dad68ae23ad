//! Forgets history that is old enough.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;

use crate::{Revision, Store};

/// Compacts a store again and again, and keeps the history of the last period: what happened within
/// it can always be watched. Dropping it stops it.
///
/// Several processes may run one each on a shared store: compacting twice changes nothing.
#[derive(Debug)]
pub struct Compactor(JoinHandle<()>);

// --- Compactor ---

impl Compactor {
    /// Starts to compact every `period` what is older than `period`.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub fn start(store: Arc<dyn Store>, period: Duration) -> Self {
        Self(tokio::spawn(run(store, period)))
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(store: Arc<dyn Store>, period: Duration) {
    let mut seen: Option<Revision> = None;
    loop {
        if let Some(revision) = seen
            && let Err(error) = store.compact(revision).await
        {
            // The next round compacts all that this one left.
            tracing::warn!(%error, %revision, "cannot compact the store, will try again in {period:?}");
        }
        match store.current_revision().await {
            Ok(revision) => seen = Some(revision),
            Err(error) => tracing::warn!(%error, "cannot ask the store for its revision"),
        }
        tokio::time::sleep(period).await;
    }
}
