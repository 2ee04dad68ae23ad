//! Limits the bytes of history that a single-process store keeps, whatever the rate of writes.
//!
//! Without it the size of a store and the time to open it would grow with the rate of writes instead of the live data.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::Revision;

/// When the readable history exceeds this size, its older half is compacted.
pub(crate) const HISTORY_BYTES: u64 = 64 << 20;
/// Younger history is kept whatever its size, so that watchers can keep up.
const YOUNG: Duration = Duration::from_secs(10);
/// Granularity of the byte counts.
const STEP_BYTES: u64 = 1 << 20;

/// Byte counts of the history by revision.
#[derive(Debug, Default)]
pub(crate) struct HistoryBudget {
    /// Segments of the history, oldest first. The last one grows up to [`STEP_BYTES`].
    parts: VecDeque<HistoryPart>,
    /// The bytes of all segments.
    bytes: u64,
}

/// The commits up to a revision and after that of the previous segment.
#[derive(Debug)]
struct HistoryPart {
    upto: Revision,
    bytes: u64,
    /// The time of its last commit.
    written: Instant,
}

// --- HistoryBudget ---

impl HistoryBudget {
    /// Adds commits.
    pub(crate) fn add(&mut self, upto: Revision, bytes: u64, now: Instant) {
        self.bytes += bytes;
        match self.parts.back_mut() {
            Some(part) if part.bytes < STEP_BYTES => {
                part.upto = upto;
                part.bytes += bytes;
                part.written = now;
            }
            _ => self.parts.push_back(HistoryPart {
                upto,
                bytes,
                written: now,
            }),
        }
    }

    /// Returns the revision to compact up to when the history exceeds the budget. The returned history counts as compacted.
    pub(crate) fn take_excess(&mut self, now: Instant) -> Option<Revision> {
        if self.bytes <= HISTORY_BYTES {
            return None;
        }
        let mut excess = None;
        while self.bytes > HISTORY_BYTES / 2
            && let Some(part) = self.parts.pop_front_if(|part| now - part.written >= YOUNG)
        {
            self.bytes -= part.bytes;
            excess = Some(part.upto);
        }
        excess
    }

    /// Removes segments that were compacted.
    pub(crate) fn compact(&mut self, upto: Revision) {
        while let Some(part) = self.parts.pop_front_if(|part| part.upto <= upto) {
            self.bytes -= part.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Prefix, Store, Write, memory::MemoryStore};

    #[tokio::test(start_paused = true)]
    async fn keeps_half_of_the_budget_and_all_recent_history() {
        let mut budget = HistoryBudget::default();
        let mut revision = 1;
        let mut write = |budget: &mut HistoryBudget, mebibytes: u64| {
            for _ in 0..mebibytes * 4 {
                revision += 1;
                budget.add(Revision::new(revision), STEP_BYTES / 4, Instant::now());
            }
        };
        write(&mut budget, 64);
        assert_eq!(budget.take_excess(Instant::now()), None);
        write(&mut budget, 1);
        assert_eq!(budget.take_excess(Instant::now()), None, "all of it is young");
        tokio::time::advance(YOUNG).await;
        // 33 of 65 MiB, which 4 commits each make.
        let excess = budget.take_excess(Instant::now());
        assert_eq!(excess, Some(Revision::new(1 + 33 * 4)));
        assert_eq!(budget.bytes, HISTORY_BYTES / 2);
        assert_eq!(budget.take_excess(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn history_compacted_by_another_process_does_not_count() {
        let mut budget = HistoryBudget::default();
        for revision in 1..=100 {
            budget.add(Revision::new(revision), STEP_BYTES, Instant::now());
        }
        tokio::time::advance(YOUNG).await;
        budget.compact(Revision::new(60));
        assert_eq!(budget.bytes, 40 << 20);
        assert_eq!(budget.take_excess(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_in_memory_forgets_by_size_without_a_compactor() {
        let store = MemoryStore::new();
        let start = store.current_revision().await.unwrap();
        let value = vec![7; 1 << 20];
        for number in 0..65 {
            let key = Key::try_new(format!("/{number}")).unwrap();
            let revision = store
                .commit(Write::create(key.clone(), value.clone()))
                .await
                .unwrap();
            store.commit(Write::delete(key, revision)).await.unwrap();
        }
        let watch = async |after| store.watch(&Prefix::all(), after).await.is_ok();
        assert!(watch(start).await, "all of it is young");
        let large = store.current_revision().await.unwrap();
        tokio::time::advance(YOUNG).await;
        let key = Key::try_new("/last").unwrap();
        store.commit(Write::create(key, "x")).await.unwrap();
        assert!(!watch(start).await);
        assert!(watch(large).await);
    }
}
