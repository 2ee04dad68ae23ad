//! The states of a store, rebuilt from the log of its commits.

use std::collections::BTreeMap;

use bytes::Bytes;
use k3_storage::{Change, Entry, Event, Key, Page, Prefix, Range, Revision};

/// What each key held when. The store was empty before the first event.
pub(crate) struct CommitTimeline {
    /// For each key its versions, in the order of their revisions; `None` where it was deleted.
    keys: BTreeMap<Key, Vec<(Revision, Option<Bytes>)>>,
}

/// A time during which a key did not change: from a revision on, up to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    pub(crate) from: Revision,
    pub(crate) until: Revision,
}

/// After everything.
pub(crate) const NEVER: Revision = Revision::new(u64::MAX);

// --- CommitTimeline ---

impl CommitTimeline {
    /// Of a log whose revisions grow.
    pub(crate) fn new(log: &[Event]) -> Self {
        let mut keys: BTreeMap<Key, Vec<_>> = BTreeMap::new();
        for event in log {
            let value = match &event.change {
                Change::Created(value) | Change::Updated(value) => Some(value.clone()),
                Change::Deleted => None,
            };
            keys.entry(event.key.clone())
                .or_default()
                .push((event.revision, value));
        }
        Self { keys }
    }

    /// What the key held at a revision, and the commit that put it there.
    pub(crate) fn held(&self, key: &Key, at: Revision) -> Option<(Revision, Bytes)> {
        let versions = self.versions(key);
        let later = versions.partition_point(|(revision, _)| *revision <= at);
        let (revision, value) = &versions[later.checked_sub(1)?];
        value.clone().map(|value| (*revision, value))
    }

    /// When the key held what a client was shown, earliest first.
    pub(crate) fn spans(&self, key: &Key, shown: Option<&Entry>) -> Vec<TimeSpan> {
        let versions = self.versions(key);
        let mut spans = Vec::new();
        let mut from = (Revision::ZERO, None);
        for (revision, value) in versions {
            spans.push((from, *revision));
            from = (*revision, value.as_ref());
        }
        spans.push((from, NEVER));
        spans
            .into_iter()
            .filter(|((from, value), _)| match (shown, value) {
                (None, None) => true,
                (Some(entry), Some(value)) => entry.revision == *from && entry.value == **value,
                _ => false,
            })
            .map(|((from, _), until)| TimeSpan { from, until })
            .collect()
    }

    /// The page of a range at a revision.
    pub(crate) fn range(&self, prefix: &Prefix, page: &Page, at: Revision) -> Range {
        let mut entries: Vec<_> = self
            .keys
            .keys()
            .filter(|key| prefix.contains(key) && page.after.as_ref().is_none_or(|after| *key > after))
            .filter_map(|key| {
                let (revision, value) = self.held(key, at)?;
                Some(Entry {
                    key: key.clone(),
                    value,
                    revision,
                    expiry: None,
                })
            })
            .collect();
        let more = page.limit != 0 && entries.len() > page.limit;
        if more {
            entries.truncate(page.limit);
        }
        Range {
            entries,
            revision: at,
            more,
        }
    }

    fn versions(&self, key: &Key) -> &[(Revision, Option<Bytes>)] {
        self.keys.get(key).map_or(&[], |versions| versions)
    }
}
