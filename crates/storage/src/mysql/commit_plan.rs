//! Decides the result of each write of a group, without access to the database.

use std::{
    collections::HashMap,
    time::{Duration, UNIX_EPOCH},
};

use super::row::{Kind, LogRow};
use crate::{Entry, Expiry, Key, Operation, Precondition, Revision, Write};

/// The state of a key before the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyState {
    /// A value, put there by this commit.
    Live(Revision),
    /// Nothing.
    Absent,
}

/// The commits of a group, and the outcome of each of its writes.
#[derive(Debug)]
pub(super) struct CommitPlan {
    /// The newest commit before the group.
    base: Revision,
    /// The group's commits, which follow on `base` without gap.
    pub(super) commits: Vec<PlannedCommit>,
    /// The outcome of each write of the group.
    outcomes: Vec<WriteOutcome>,
}

/// A commit to be stored.
#[derive(Clone, Debug)]
pub(super) struct PlannedCommit {
    pub(super) logged: LogRow,
    /// The commit whose value it replaces.
    pub(super) previous: Option<Revision>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// Committed with this revision.
    Done(Revision),
    /// It does not happen, because the key holds what this commit put there, or nothing.
    Conflict(Option<Revision>),
}

// --- CommitPlan ---

impl CommitPlan {
    /// Decides the writes of a group. `known` reports the state of each of their keys; keys that are
    /// not in it do not exist. Deadlines count from `now_ms`, by the database's clock.
    pub(super) fn new<'a>(
        writes: impl Iterator<Item = &'a Write>,
        mut known: HashMap<Key, KeyState>,
        base: Revision,
        now_ms: u64,
        nonce: u64,
    ) -> Self {
        let mut plan = Self {
            base,
            commits: Vec::new(),
            outcomes: Vec::new(),
        };
        let mut newest = base;
        for write in writes {
            let state = known.get(&write.key).copied().unwrap_or(KeyState::Absent);
            let (previous, kind) = match (write.precondition, state) {
                (Precondition::Absent, KeyState::Absent) => (None, Kind::Created),
                (Precondition::At(expected), KeyState::Live(revision)) if expected == revision => {
                    (Some(revision), Kind::Updated)
                }
                (_, KeyState::Live(revision)) => {
                    plan.outcomes.push(WriteOutcome::Conflict(Some(revision)));
                    continue;
                }
                (_, KeyState::Absent) => {
                    plan.outcomes.push(WriteOutcome::Conflict(None));
                    continue;
                }
            };
            newest = newest.next();
            let logged = logged(write, newest, kind, now_ms, nonce);
            let state = match logged.kind {
                Kind::Deleted => KeyState::Absent,
                Kind::Created | Kind::Updated => KeyState::Live(newest),
            };
            known.insert(write.key.clone(), state);
            plan.commits.push(PlannedCommit { logged, previous });
            plan.outcomes.push(WriteOutcome::Done(newest));
        }
        plan
    }

    pub(super) fn outcomes(&self) -> &[WriteOutcome] {
        &self.outcomes
    }

    /// The revision of the store after the group.
    pub(super) fn newest(&self) -> Revision {
        self.commits.last().map_or(self.base, |last| last.logged.revision)
    }

    /// Whether this commit is one of the group's own.
    pub(super) fn is_own(&self, revision: Revision) -> bool {
        revision > self.base
    }

    /// The entry one of the group's own commits puts there.
    pub(super) fn own_entry(&self, revision: Revision) -> Option<Entry> {
        let index = usize::try_from(revision.get().checked_sub(self.base.get() + 1)?).ok()?;
        self.commits.get(index)?.logged.clone().into_entry()
    }

    /// The commits of earlier groups that writes of this one are in conflict with.
    pub(super) fn obstacles(&self) -> Vec<Revision> {
        let mut obstacles: Vec<_> = self
            .outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                WriteOutcome::Conflict(Some(revision)) if !self.is_own(*revision) => Some(*revision),
                _ => None,
            })
            .collect();
        obstacles.sort_unstable();
        obstacles.dedup();
        obstacles
    }

    /// For each key its last commit of the group.
    pub(super) fn last_per_key(&self) -> Vec<&LogRow> {
        let mut last: HashMap<&Key, &LogRow> = HashMap::new();
        for commit in &self.commits {
            last.insert(&commit.logged.key, &commit.logged);
        }
        let mut last: Vec<_> = last.into_values().collect();
        // All transactions lock rows in the order of keys, so that they do not deadlock.
        last.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        last
    }
}

fn logged(write: &Write, revision: Revision, kind: Kind, now_ms: u64, nonce: u64) -> LogRow {
    let (kind, value, ttl) = match &write.operation {
        Operation::Put { value, ttl } => (kind, value.clone(), *ttl),
        Operation::Delete => (Kind::Deleted, bytes::Bytes::new(), None),
    };
    LogRow {
        revision,
        key: write.key.clone(),
        kind,
        nonce,
        expiry: ttl.map(|ttl| Expiry::after(UNIX_EPOCH + Duration::from_millis(now_ms), ttl)),
        value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Revision = Revision::new(10);

    fn key(text: &str) -> Key {
        Key::try_new(text).unwrap()
    }

    fn plan(writes: &[Write], known: &[(&str, u64)]) -> CommitPlan {
        let known = known
            .iter()
            .map(|(name, revision)| (key(name), KeyState::Live(Revision::new(*revision))))
            .collect();
        CommitPlan::new(writes.iter(), known, BASE, 1_000, 7)
    }

    #[test]
    fn concurrent_creates_in_a_group_have_one_winner() {
        let plan = plan(
            &[Write::create(key("/a"), "one"), Write::create(key("/a"), "two")],
            &[],
        );
        let eleven = Revision::new(11);
        assert_eq!(
            plan.outcomes(),
            [WriteOutcome::Done(eleven), WriteOutcome::Conflict(Some(eleven))]
        );
        assert_eq!(plan.own_entry(eleven).unwrap().value, "one");
        assert!(plan.obstacles().is_empty());
        assert_eq!(plan.newest(), eleven);
    }

    #[test]
    fn writes_on_one_key_build_on_each_other() {
        let plan = plan(
            &[
                Write::update(key("/a"), Revision::new(5), "1"),
                Write::delete(key("/a"), Revision::new(11)),
                Write::create(key("/a"), "2"),
                Write::create(key("/b"), "3"),
            ],
            &[("/a", 5)],
        );
        let published: Vec<_> = plan
            .commits
            .iter()
            .map(|commit| {
                (
                    commit.logged.revision.get(),
                    commit.logged.kind,
                    commit.previous.map(Revision::get),
                )
            })
            .collect();
        assert_eq!(
            published,
            [
                (11, Kind::Updated, Some(5)),
                (12, Kind::Deleted, Some(11)),
                (13, Kind::Created, None),
                (14, Kind::Created, None),
            ]
        );
        let last: Vec<_> = plan.last_per_key().iter().map(|l| l.revision.get()).collect();
        assert_eq!(last, [13, 14]);
    }

    #[test]
    fn a_conflict_takes_no_revision() {
        let plan = plan(
            &[
                Write::create(key("/a"), "x"),
                Write::delete(key("/b"), Revision::new(3)),
                Write::create(key("/c"), "y"),
            ],
            &[("/a", 5)],
        );
        assert_eq!(
            plan.outcomes(),
            [
                WriteOutcome::Conflict(Some(Revision::new(5))),
                WriteOutcome::Conflict(None),
                WriteOutcome::Done(Revision::new(11)),
            ]
        );
        assert_eq!(plan.obstacles(), [Revision::new(5)]);
    }

    #[test]
    fn a_deadline_counts_from_the_clock_of_the_database() {
        let write = Write::create(key("/a"), "x").expiring(Duration::from_secs(2));
        let plan = plan(&[write], &[]);
        let expiry = plan.commits[0].logged.expiry.unwrap();
        assert_eq!((expiry.deadline_ms, expiry.ttl), (3_000, Duration::from_secs(2)));
    }
}
