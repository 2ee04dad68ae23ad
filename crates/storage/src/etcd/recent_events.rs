//! A buffer of recent events, so that a watch that is only slightly behind does not read etcd's history, which takes about a
//! tenth of a second.

use std::collections::VecDeque;

use crate::{Change, Event, Prefix, Revision};

const MAX_EVENTS: usize = 8192;
const MAX_BYTES: usize = 16 << 20;

/// Every event of the store above some revision.
pub(super) struct RecentEvents {
    /// In the order of their revisions, all above `since`, none left out.
    events: VecDeque<Event>,
    since: Revision,
    /// The size of the events in bytes.
    bytes: usize,
}

// --- RecentEvents ---

impl RecentEvents {
    pub(super) fn new(since: Revision) -> Self {
        Self {
            events: VecDeque::new(),
            since,
            bytes: 0,
        }
    }

    /// Adds events, which must directly follow the previous ones.
    pub(super) fn extend(&mut self, events: &[Event]) {
        self.events.extend(events.iter().cloned());
        self.bytes += events.iter().map(weight).sum::<usize>();
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else {
                return;
            };
            self.bytes -= weight(&oldest);
            self.since = oldest.revision;
        }
    }

    /// The events under a prefix after a revision, and how far they reach: `upto`, unless the limit
    /// cut them short. `None` when some of them are no longer here.
    pub(super) fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Option<(Vec<Event>, Revision)> {
        if after < self.since {
            return None;
        }
        let first = self.events.partition_point(|event| event.revision <= after);
        let found = self
            .events
            .range(first..)
            .take_while(|event| event.revision <= upto)
            .filter(|event| prefix.contains(&event.key));
        Some(cut(found, upto, limit))
    }
}

/// The first `limit` events, and those that share the revision of the last of them.
pub(super) fn cut<'a>(
    mut events: impl Iterator<Item = &'a Event>,
    upto: Revision,
    limit: usize,
) -> (Vec<Event>, Revision) {
    let mut taken: Vec<Event> = events.by_ref().take(limit).cloned().collect();
    let Some(reached) = taken.last().map(|last| last.revision) else {
        return (taken, upto);
    };
    for event in events {
        if event.revision > reached {
            return (taken, reached);
        }
        taken.push(event.clone());
    }
    (taken, upto)
}

fn weight(event: &Event) -> usize {
    let value = match &event.change {
        Change::Created(value) | Change::Updated(value) => value.len(),
        Change::Deleted => 0,
    };
    // With what the event itself takes.
    value + event.key.len() + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn event(revision: u64, key: &str) -> Event {
        Event {
            revision: Revision::new(revision),
            key: Key::try_new(key).unwrap(),
            change: Change::Deleted,
        }
    }

    fn past(recent: &RecentEvents, after: u64, upto: u64, limit: usize) -> Option<(Vec<u64>, u64)> {
        let prefix = Prefix::try_new("/a/").unwrap();
        let (events, reached) = recent.past(&prefix, Revision::new(after), Revision::new(upto), limit)?;
        let events = events.iter().map(|event| event.revision.get()).collect();
        Some((events, reached.get()))
    }

    #[test]
    fn answers_only_from_complete_recent_history() {
        let mut recent = RecentEvents::new(Revision::new(10));
        recent.extend(&[event(12, "/a/x"), event(13, "/b/x"), event(15, "/a/y")]);
        assert_eq!(past(&recent, 9, 20, 100), None);
        assert_eq!(past(&recent, 10, 20, 100), Some((vec![12, 15], 20)));
        assert_eq!(past(&recent, 12, 14, 100), Some((vec![], 14)));
        assert_eq!(past(&recent, 10, 20, 1), Some((vec![12], 12)));
    }

    #[test]
    fn evicts_the_oldest_first() {
        let mut recent = RecentEvents::new(Revision::new(0));
        let many: Vec<_> = (1..=10_000).map(|revision| event(revision, "/a/x")).collect();
        recent.extend(&many);
        let forgotten = 10_000 - MAX_EVENTS as u64;
        assert_eq!(past(&recent, forgotten - 1, 10_000, 1), None);
        assert_eq!(
            past(&recent, forgotten, 10_000, 1),
            Some((vec![forgotten + 1], forgotten + 1))
        );
    }

    #[test]
    fn a_revision_is_never_cut_in_two() {
        let mut recent = RecentEvents::new(Revision::new(1));
        recent.extend(&[
            event(2, "/a/x"),
            event(3, "/a/x"),
            event(3, "/a/y"),
            event(4, "/a/x"),
        ]);
        assert_eq!(past(&recent, 1, 9, 2), Some((vec![2, 3, 3], 3)));
        assert_eq!(past(&recent, 3, 9, 2), Some((vec![4], 9)));
    }
}
