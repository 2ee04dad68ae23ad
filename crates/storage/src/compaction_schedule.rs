//! Decides when to compact which revision, by a history mark in the store.
//!
//! Guarantees: the history of the last period can be watched if the clocks of the processes agree or the processes keep
//! running; history older than two periods is compacted, however often processes restart; several processes on one
//! store compact as a single one would.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{Clock, HistoryMark, Store, StoreError};

/// Compacts a store when its mark is a period old, and then replaces the mark.
#[derive(Debug)]
pub struct CompactionSchedule {
    period: Duration,
    clock: Arc<dyn Clock>,
    /// The mark at the last read.
    observed: Option<MarkObservation>,
    /// The time of the last read.
    last_read: Option<Instant>,
}

/// A mark, and the bounds of its age that this process observed.
#[derive(Clone, Copy, Debug)]
struct MarkObservation {
    mark: HistoryMark,
    /// When this process first read the mark. The mark is at least as old.
    first_seen: Instant,
    /// When this process last found no such mark. The mark is at most as old. `None` if the first read found it: then only the
    /// wall clock gives its age.
    last_absent: Option<Instant>,
}

// --- CompactionSchedule ---

impl CompactionSchedule {
    /// Keeps the history of at least the last `period`, and of at most the last two.
    pub fn new(period: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            period,
            clock,
            observed: None,
            last_read: None,
        }
    }

    /// Compacts history that is old enough, and returns the delay until the next run.
    pub async fn run(&mut self, store: &dyn Store) -> Result<Duration, StoreError> {
        loop {
            let found = store.history_mark().await?;
            let now = Instant::now();
            self.observe(found, now);
            if let Some(observed) = self.observed {
                let age = observed.age(now, self.clock.as_ref());
                if let Some(remaining) = self.period.checked_sub(age).filter(|left| !left.is_zero()) {
                    return Ok(remaining);
                }
                store.compact(observed.mark.revision).await?;
            }
            if self.replace_mark(store, found).await? {
                return Ok(self.period);
            }
            // Another process replaced the mark first: its mark counts.
        }
    }

    fn observe(&mut self, found: Option<HistoryMark>, now: Instant) {
        let last_absent = self.last_read.replace(now);
        // A store without persistent marks uses the mark in this process's memory.
        let Some(mark) = found else { return };
        if self.observed.is_none_or(|observed| observed.mark != mark) {
            self.observed = Some(MarkObservation {
                mark,
                first_seen: now,
                last_absent,
            });
        }
    }

    async fn replace_mark(
        &mut self,
        store: &dyn Store,
        found: Option<HistoryMark>,
    ) -> Result<bool, StoreError> {
        let written = Instant::now();
        let mark = HistoryMark::new(store.current_revision().await?, self.clock.now());
        if !store.replace_history_mark(found, mark).await? {
            return Ok(false);
        }
        self.observed = Some(MarkObservation {
            mark,
            first_seen: written,
            last_absent: Some(written),
        });
        Ok(true)
    }
}

// --- MarkObservation ---

impl MarkObservation {
    /// The age of the mark. The wall clock is trusted only within the observed bounds: clocks of two machines may differ, and a
    /// clock may be set.
    fn age(&self, now: Instant, clock: &dyn Clock) -> Duration {
        let least = now - self.first_seen;
        let most = self.last_absent.map_or(Duration::MAX, |absent| now - absent);
        self.mark.age(clock.now()).unwrap_or(least).clamp(least, most)
    }
}
