//! The data of the memory store: versions of keys and the log of commits, without locks and tasks.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    Change, CommitError, Entry, Event, Expiry, HistoryMark, Key, Page, Precondition, Prefix, Range,
    ReadError, Revision, WatchError, history_budget::HistoryBudget,
};

/// The state of a memory store.
pub(super) struct MemoryState {
    /// The newest commit.
    current: Revision,
    /// The oldest state that can still be read. Not above `current`.
    compacted: Revision,
    /// For each key its versions, oldest first. Never empty: the last of them is at or before
    /// `compacted` only if it is a live value.
    keys: BTreeMap<Key, Vec<EntryVersion>>,
    /// The commits above `compacted`, one per revision, without gap.
    log: VecDeque<Event>,
    /// How many keys hold a value now.
    live: usize,
    /// How much of the log is kept.
    budget: HistoryBudget,
    /// The history mark of compactors.
    pub(super) history_mark: Option<HistoryMark>,
}

/// The value of a key between two of its commits.
struct EntryVersion {
    revision: Revision,
    /// `None` when the commit deleted the key.
    stored: Option<StoredValue>,
}

#[derive(Clone)]
struct StoredValue {
    value: Bytes,
    expiry: Option<Expiry>,
}

// --- MemoryState ---

impl MemoryState {
    pub(super) fn new() -> Self {
        Self {
            current: Revision::FIRST,
            compacted: Revision::FIRST,
            keys: BTreeMap::new(),
            log: VecDeque::new(),
            live: 0,
            budget: HistoryBudget::default(),
            history_mark: None,
        }
    }

    pub(super) fn current(&self) -> Revision {
        self.current
    }

    pub(super) fn compacted(&self) -> Revision {
        self.compacted
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(super) fn get(&self, key: &Key) -> Option<Entry> {
        let newest = self.keys.get(key)?.last()?;
        newest.entry(key)
    }

    pub(super) fn range(&self, prefix: &Prefix, page: &Page) -> Result<Range, ReadError> {
        let at = page.at.unwrap_or(self.current);
        if at > self.current {
            return Err(ReadError::Future {
                requested: at,
                current: self.current,
            });
        }
        if at < self.compacted {
            return Err(ReadError::Compacted {
                requested: at,
                oldest: self.compacted,
            });
        }
        let start = match &page.after {
            Some(after) if **after >= **prefix => Bound::Excluded(&**after),
            _ => Bound::Included(&**prefix),
        };
        let mut found = self
            .keys
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| prefix.contains(key))
            .filter_map(|(key, versions)| {
                versions
                    .iter()
                    .rev()
                    .find(|version| version.revision <= at)?
                    .entry(key)
            });
        let limit = if page.limit == 0 { usize::MAX } else { page.limit };
        let entries = found.by_ref().take(limit).collect();
        Ok(Range {
            entries,
            revision: at,
            more: found.next().is_some(),
        })
    }

    /// Commits a value, or a deletion where it is `None`, if the precondition holds.
    pub(super) fn commit(
        &mut self,
        key: &Key,
        precondition: Precondition,
        stored: Option<(Bytes, Option<Expiry>)>,
    ) -> Result<Event, CommitError> {
        let known = self.get(key);
        match (precondition, &known) {
            (Precondition::Absent, None) => {}
            (Precondition::At(revision), Some(entry)) if entry.revision == revision => {}
            _ => return Err(CommitError::Conflict(known)),
        }
        let revision = self.current.next();
        let change = match (&stored, &known) {
            (None, _) => Change::Deleted,
            (Some((value, _)), None) => Change::Created(value.clone()),
            (Some((value, _)), Some(_)) => Change::Updated(value.clone()),
        };
        match change {
            Change::Created(_) => self.live += 1,
            Change::Updated(_) => {}
            Change::Deleted => self.live -= 1,
        }
        let stored = stored.map(|(value, expiry)| StoredValue { value, expiry });
        self.keys
            .entry(key.clone())
            .or_default()
            .push(EntryVersion { revision, stored });
        self.current = revision;
        let event = Event {
            revision,
            key: key.clone(),
            change,
        };
        self.log.push_back(event.clone());
        self.bound_history(&event);
        Ok(event)
    }

    /// Compacts the oldest history when there is too much of it.
    fn bound_history(&mut self, newest: &Event) {
        let value_bytes = match &newest.change {
            Change::Created(value) | Change::Updated(value) => value.len(),
            Change::Deleted => 0,
        };
        let now = Instant::now();
        let bytes = newest.key.len() + value_bytes;
        self.budget.add(newest.revision, bytes as u64, now);
        if let Some(upto) = self.budget.take_excess(now) {
            self.compact(upto);
        }
    }

    pub(super) fn past(
        &self,
        prefix: &Prefix,
        after: Revision,
        upto: Revision,
        limit: usize,
    ) -> Result<(Vec<Event>, Revision), WatchError> {
        if after < self.compacted {
            return Err(WatchError::Compacted {
                after,
                oldest: self.compacted,
            });
        }
        let skipped = usize::try_from(after.get() - self.compacted.get()).unwrap_or(usize::MAX);
        let mut events = Vec::new();
        for event in self
            .log
            .iter()
            .skip(skipped)
            .take_while(|event| event.revision <= upto)
        {
            if prefix.contains(&event.key) {
                events.push(event.clone());
                if events.len() == limit {
                    return Ok((events, event.revision));
                }
            }
        }
        Ok((events, upto))
    }

    pub(super) fn compact(&mut self, upto: Revision) {
        let upto = upto.min(self.current);
        while let Some(event) = self.log.pop_front_if(|event| event.revision <= upto) {
            self.forget_before(&event.key, upto);
        }
        self.compacted = self.compacted.max(upto);
        self.budget.compact(upto);
    }

    /// Drops the versions of a key that are not visible at `upto` or later.
    fn forget_before(&mut self, key: &Key, upto: Revision) {
        let Some(versions) = self.keys.get_mut(key) else {
            return;
        };
        let Some(shown) = versions.iter().rposition(|version| version.revision <= upto) else {
            return;
        };
        let first_kept = if versions[shown].stored.is_some() {
            shown
        } else {
            shown + 1
        };
        versions.drain(..first_kept);
        if versions.is_empty() {
            self.keys.remove(key);
        }
    }

    /// Makes this the state of another store at `current`, without history.
    pub(super) fn import(&mut self, entries: Vec<Entry>, current: Revision) {
        // Above its own past: a caller that listed nothing here at a revision must not find something at the
        // same one.
        let past = if entries.is_empty() {
            self.current
        } else {
            self.current.next()
        };
        self.current = current.max(past);
        self.compacted = self.current;
        self.log.clear();
        self.budget = HistoryBudget::default();
        self.live = entries.len();
        self.keys = entries
            .into_iter()
            .map(|entry| {
                let stored = Some(StoredValue {
                    value: entry.value,
                    expiry: entry.expiry,
                });
                (
                    entry.key,
                    vec![EntryVersion {
                        revision: entry.revision,
                        stored,
                    }],
                )
            })
            .collect();
    }
}

// --- EntryVersion ---

impl EntryVersion {
    fn entry(&self, key: &Key) -> Option<Entry> {
        let StoredValue { value, expiry } = self.stored.clone()?;
        Some(Entry {
            key: key.clone(),
            value,
            revision: self.revision,
            expiry,
        })
    }
}
