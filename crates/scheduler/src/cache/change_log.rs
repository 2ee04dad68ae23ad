//! Which nodes changed, in order.

use std::collections::VecDeque;

/// Old entries are forgotten: who comes late looks at everything.
const KEPT: usize = 8192;

/// The places of nodes that changed, in order. A reader remembers how far it has read.
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

    /// The end: where a reader of everything goes on.
    pub(crate) fn end(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// What changed since; `None` when that is not known any more.
    pub(crate) fn since(&self, read: u64) -> Option<impl Iterator<Item = usize>> {
        let skip = usize::try_from(read.checked_sub(self.forgotten)?).ok()?;
        Some(self.entries.range(skip.min(self.entries.len())..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_what_is_new_or_hears_that_it_is_late() {
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
