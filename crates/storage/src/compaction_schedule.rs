//! When to compact which revision, decided by a mark in the store.
//!
//! Promises: what happened within the last period can be watched, as long as the clocks of the processes agree
//! or the processes keep running; what is older than two periods is compacted, however often processes restart in
//! between; several processes on one store compact as one of them alone would.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{Clock, HistoryMark, Store, StoreError};

/// Compacts a store when its mark is a period old, and then replaces the mark.
#[derive(Debug)]
pub struct CompactionSchedule {
    period: Duration,
    clock: Arc<dyn Clock>,
    /// The mark that the store had when it was last read.
    observed: Option<MarkObservation>,
    /// When the store was last requested its mark.
    last_read: Option<Instant>,
}

/// A mark, and what this process itself knows of its age.
#[derive(Clone, Copy, Debug)]
struct MarkObservation {
    mark: HistoryMark,
    /// When this process saw it for the first time. The mark is at least as old.
    first_seen: Instant,
    /// When this process looked and it was not there. The mark is at most as old. `None` if it was there from
    /// the start: then the wall clock alone reports its age.
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

    /// Compacts what is old enough, and returns after how long to run again.
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
            // Another process was faster: its mark is the one that counts.
        }
    }

    fn observe(&mut self, found: Option<HistoryMark>, now: Instant) {
        let last_absent = self.last_read.replace(now);
        // A store that keeps no mark has the one that this process remembers.
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
    /// How old the mark is. The wall clock is trusted only within what this process has seen itself: clocks of
    /// two machines may differ, and one clock may be set.
    fn age(&self, now: Instant, clock: &dyn Clock) -> Duration {
        let least = now - self.first_seen;
        let most = self.last_absent.map_or(Duration::MAX, |absent| now - absent);
        self.mark.age(clock.now()).unwrap_or(least).clamp(least, most)
    }
}
