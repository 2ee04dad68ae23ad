//! The revision of a store at a time. Compactors keep it in the store across restarts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Revision;

/// The revision of a store at a wall-clock time.
///
/// Each durable store has at most one, separate from its entries and not visible in watches. All processes on a shared store
/// replace the same mark, so a compactor in any process continues where the last one stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    /// The newest revision at `time_ms`.
    pub revision: Revision,
    /// Milliseconds since 1970, by the clock of the process that wrote it.
    pub time_ms: u64,
}

// --- HistoryMark ---

impl HistoryMark {
    /// A mark with `revision` and the current time.
    pub fn new(revision: Revision, now: SystemTime) -> Self {
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            revision,
            time_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// How long ago it was written by the wall clock; `None` if that is in the future.
    pub(crate) fn age(&self, now: SystemTime) -> Option<Duration> {
        let written = UNIX_EPOCH.checked_add(Duration::from_millis(self.time_ms))?;
        now.duration_since(written).ok()
    }
}
