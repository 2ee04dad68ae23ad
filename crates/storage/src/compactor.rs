//! Periodic compaction of old history.

use std::{sync::Arc, time::Duration};

use k3_task::Clock;
use tokio::task::JoinHandle;

use crate::{CompactionSchedule, Store};

/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(10);

/// Compacts a store periodically, and keeps the history of the last period for watches. Stops when it is dropped.
///
/// Each process on a shared store may run a compactor; the history mark in the store coordinates them.
#[derive(Debug)]
pub struct Compactor(JoinHandle<()>);

// --- Compactor ---

impl Compactor {
    /// Starts to compact history older than `period` every `period`; at once if the mark in the store is already that old.
    #[expect(
        clippy::disallowed_methods,
        reason = "the handle is kept, and aborts the task on drop"
    )]
    pub fn start(store: Arc<dyn Store>, period: Duration, clock: Clock) -> Self {
        Self(tokio::spawn(run(store, CompactionSchedule::new(period, clock))))
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(store: Arc<dyn Store>, mut schedule: CompactionSchedule) {
    loop {
        let pause = match schedule.run(store.as_ref()).await {
            Ok(pause) => pause,
            Err(error) => {
                // The next round compacts the rest.
                tracing::warn!(%error, "failed to compact the store, will retry in {RETRY:?}");
                RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Prefix, WatchError, Write, memory::MemoryStore};
    use k3_task::Clock;

    const PERIOD: Duration = Duration::from_mins(5);

    #[tokio::test(start_paused = true)]
    async fn keeps_only_the_history_of_the_last_period() {
        let store = MemoryStore::new();
        let watch = async |after| store.watch(&Prefix::all(), after).await.map(|_| ());
        let start = store.current_revision().await.unwrap();
        let _compactor = Compactor::start(store.clone(), PERIOD, Clock::system());
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
                        "history after {} is younger than the period",
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
