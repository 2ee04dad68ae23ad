//! Periodic compaction: a mark in the store decides when to compact and up to which revision.
//!
//! The mark is a revision and the time at which it was the current one. When the mark is one compaction interval old, a process
//! compacts up to its revision and replaces it.
//!
//! Promises: the history of the last interval can be watched, as long as the clocks of the processes agree or the processes keep
//! running. History older than two intervals is compacted, even if processes restart often. Several processes on one store
//! compact as often as a single one.

// upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go StartCompactorPerEndpoint, NewCompactor, runCompactLoop

use std::time::Duration;

use k3_task::Clock;
use tokio::time::Instant;

use crate::{HistoryMark, Store, StoreError};

/// Compacts a store when its mark is one interval old, and then replaces the mark.
#[derive(Debug)]
pub struct CompactionSchedule {
    interval: Duration,
    clock: Clock,
    /// The mark that the store had when it was last read.
    observed: Option<MarkObservation>,
    /// When the mark was last read from the store.
    last_read: Option<Instant>,
}

/// A mark, and the bounds of its age by the monotonic clock of this process.
#[derive(Clone, Copy, Debug)]
struct MarkObservation {
    mark: HistoryMark,
    /// When this process first read the mark: a lower bound of its age.
    first_seen: Instant,
    /// When this process last read the store without this mark: an upper bound of its age. `None` if the mark was there at the
    /// first read: then only the wall clock gives an upper bound.
    last_absent: Option<Instant>,
}

// --- CompactionSchedule ---

impl CompactionSchedule {
    /// Keeps the history of at least one `interval`, and of at most two.
    pub fn new(interval: Duration, clock: Clock) -> Self {
        Self {
            interval,
            clock,
            observed: None,
            last_read: None,
        }
    }

    /// Compacts the store if its mark is old enough, and returns the delay until the next run.
    // upstream: staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go Compact
    pub async fn run(&mut self, store: &dyn Store) -> Result<Duration, StoreError> {
        loop {
            let found = store.history_mark().await?;
            let now = Instant::now();
            self.observe(found, now);
            if let Some(observed) = self.observed {
                let age = observed.age(now, &self.clock);
                if let Some(remaining) = self.interval.checked_sub(age).filter(|left| !left.is_zero()) {
                    return Ok(remaining);
                }
                store.compact(observed.mark.revision).await?;
            }
            if self.replace_mark(store, found).await? {
                return Ok(self.interval);
            }
            // Another process replaced the mark first: read it and wait for its age.
        }
    }

    fn observe(&mut self, found: Option<HistoryMark>, now: Instant) {
        let last_absent = self.last_read.replace(now);
        // A store without persistent marks: the mark in `self.observed` stays valid.
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
        let mark = HistoryMark::new(store.current_revision().await?, self.clock.system_time());
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
    /// The age of the mark by the wall clock, clamped to the bounds that this process observed: the clocks of two machines may
    /// differ, and a clock may be set.
    fn age(&self, now: Instant, clock: &Clock) -> Duration {
        let min = now - self.first_seen;
        let max = self.last_absent.map_or(Duration::MAX, |absent| now - absent);
        self.mark.age(clock.system_time()).unwrap_or(min).clamp(min, max)
    }
}
