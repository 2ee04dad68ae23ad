//! The order in which nodes changed.

use std::collections::VecDeque;

/// Older entries are dropped; a reader that is further behind rebuilds its state from all nodes.
const KEPT: usize = 8192;

/// Slots of the nodes that changed, oldest first. Each reader remembers its own position.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    entries: VecDeque<usize>,
    forgotten: u64,
}

impl ChangeLog {
    /// A node changed.
    pub(crate) fn push(&mut self, slot: usize) {
        if self.entries.len() == KEPT {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(slot);
    }

    /// The position after the newest entry.
    pub(crate) fn end(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// Slots that changed after position `read`; `None` if the log no longer reaches back that far.
    pub(crate) fn since(&self, read: u64) -> Option<impl Iterator<Item = usize>> {
        let skip = usize::try_from(read.checked_sub(self.forgotten)?).ok()?;
        Some(self.entries.range(skip.min(self.entries.len())..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_returns_new_entries_or_none_when_they_were_dropped() {
        let mut log = ChangeLog::default();
        log.push(1);
        let read = log.end();
        log.push(2);
        assert_eq!(log.since(read).unwrap().collect::<Vec<_>>(), [2]);
        for slot in 0..KEPT {
            log.push(slot);
        }
        assert!(log.since(read).is_none());
        assert_eq!(log.since(log.end()).unwrap().count(), 0);
    }
}
