//! Where a store stood at a time: what compactors remember across restarts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Revision;

/// The revision at which a store stood at some time of day.
///
/// Each durable store has at most one, beside its entries: no entry and no watch shows it. All processes on a
/// shared store replace the same one, so a compactor that starts anywhere continues where the last one stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    /// The newest revision at `time_ms`.
    pub revision: Revision,
    /// Milliseconds since 1970, by the clock of the process that wrote it.
    pub time_ms: u64,
}

// --- HistoryMark ---

impl HistoryMark {
    /// A store that stands at `revision` now.
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
