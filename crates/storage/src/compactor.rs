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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Prefix, WatchError, Write, memory::MemoryStore};

    const PERIOD: Duration = Duration::from_mins(5);

    #[tokio::test(start_paused = true)]
    async fn the_history_of_the_last_period_is_kept_and_older_history_is_not() {
        let store = MemoryStore::new();
        let watch = async |after| store.watch(&Prefix::all(), after).await.map(|_| ());
        let start = store.current_revision().await.unwrap();
        let _compactor = Compactor::start(store.clone(), PERIOD);
        let mut made = Vec::new();
        for number in 0..12 {
            let key = Key::try_new(format!("/{number}")).unwrap();
            made.push((
                tokio::time::Instant::now(),
                store.commit(Write::create(key, "")).await.unwrap(),
            ));
            tokio::time::sleep(PERIOD / 4).await;
            for pair in made.windows(2) {
                if pair[1].0.elapsed() < PERIOD {
                    assert!(
                        watch(pair[0].1).await.is_ok(),
                        "what came after {} is young",
                        pair[0].1
                    );
                }
            }
        }
        // Between two rounds nothing is older than two periods.
        for (when, revision) in &made {
            if when.elapsed() > 2 * PERIOD {
                assert!(matches!(
                    watch(*revision).await,
                    Err(WatchError::Compacted { .. })
                ));
            }
        }
        assert!(matches!(watch(start).await, Err(WatchError::Compacted { .. })));
    }
}
