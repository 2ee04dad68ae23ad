//! Whether a history is linearizable: whether each operation can have happened at one moment between
//! its question and its answer, all of them in one order.
//!
//! Commits are ordered by their revisions, so only the reads are to be placed. A read can be placed at
//! any revision at which what it saw was true, but not below what was known to anyone before it was
//! asked (the floor), nor at or above a commit that was asked only after it was answered (the ceiling).
//! Placing each as low as it can be leaves the most room for those that follow, so when that fails,
//! nothing else would have worked.

use std::collections::{BTreeMap, HashMap};

use k3_storage::{Change, Event, Expect, Operation as Effect, Revision, Write};

use super::{
    operation::{Done, Operation},
    timeline::{NEVER, Timeline},
};

/// How a history breaks the promises.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Violation {
    #[error("the log is not in the order of its revisions: {0:?} follows {1}")]
    Disorder(Event, Revision),
    #[error("two writes were acknowledged with revision {0}")]
    Reused(Revision),
    #[error("an acknowledged write is not in the log: {0:?}")]
    Lost(Operation),
    #[error("the log tells another story than the writer of {0:?}: {1:?}")]
    Altered(Operation, Event),
    #[error("nobody wrote {0:?}")]
    Unexplained(Event),
    #[error("the write expected another state than it found at its revision {1}: {0:?}")]
    Illegal(Write, Revision),
    #[error("a conflict was reported where the expected state was there: {0:?}")]
    Unjustified(Operation),
    #[error("what was read never was: {0:?}")]
    Phantom(Operation),
    #[error("what was read was true only before revision {1}, which was known before it was asked: {0:?}")]
    Stale(Operation, Revision),
    #[error("what was read came true only after it was answered: {0:?}")]
    Premature(Operation),
    #[error("a commit has a lower revision than {1}, which was known before it was asked: {0:?}")]
    Backwards(Operation, Revision),
    #[error("a range is not the state at its revision: {0:?}, but the state is {1:?}")]
    Torn(Operation, k3_storage::Range),
}

/// What is found, or how the promises are broken.
type Verdict<T = ()> = Result<T, Box<Violation>>;

/// Judges a history of a store that began empty, given the log of all its commits.
pub(crate) fn check(operations: &[Operation], log: &[Event]) -> Verdict {
    for pair in log.windows(2) {
        if pair[1].revision <= pair[0].revision {
            return Err(Violation::Disorder(pair[1].clone(), pair[0].revision).into());
        }
    }
    let timeline = Timeline::new(log);
    let writers = explain(operations, log, &timeline)?;
    let ceilings = Ceilings::new(operations, log, &writers);
    place(operations, &timeline, &writers, &ceilings)
}

/// Finds for each event of the log the operation that caused it: revision to index.
fn explain(
    operations: &[Operation],
    log: &[Event],
    timeline: &Timeline,
) -> Verdict<BTreeMap<Revision, usize>> {
    let mut acknowledged: HashMap<Revision, usize> = HashMap::new();
    let mut uncertain: Vec<usize> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        match &operation.done {
            Done::Committed { revision, .. } if acknowledged.insert(*revision, index).is_some() => {
                return Err(Violation::Reused(*revision).into());
            }
            Done::Uncertain { .. } => uncertain.push(index),
            _ => {}
        }
    }
    uncertain.sort_by_key(|index| operations[*index].asked);
    let mut writers = BTreeMap::new();
    for event in log {
        let before = timeline.held(&event.key, Revision::new(event.revision.get() - 1));
        let found = before.as_ref().map(|(revision, _)| *revision);
        let index = if let Some(index) = acknowledged.remove(&event.revision) {
            let Done::Committed { write, .. } = &operations[index].done else {
                unreachable!("only commits are acknowledged");
            };
            if !causes(write, event, found) {
                return Err(Violation::Altered(operations[index].clone(), event.clone()).into());
            }
            if !expects(write.expect, found) {
                return Err(Violation::Illegal(write.clone(), event.revision).into());
            }
            index
        } else {
            let candidate = uncertain.iter().position(|index| {
                let Done::Uncertain { write } = &operations[*index].done else {
                    return false;
                };
                causes(write, event, found) && expects(write.expect, found)
            });
            let candidate = candidate.ok_or_else(|| Violation::Unexplained(event.clone()))?;
            uncertain.remove(candidate)
        };
        writers.insert(event.revision, index);
    }
    match acknowledged.into_values().min() {
        Some(index) => Err(Violation::Lost(operations[index].clone()).into()),
        None => Ok(writers),
    }
}

/// Whether the event is what the write does to a key that holds what was written at `found`.
fn causes(write: &Write, event: &Event, found: Option<Revision>) -> bool {
    let same = match (&write.operation, &event.change, found) {
        (Effect::Put { value, .. }, Change::Created(told), None)
        | (Effect::Put { value, .. }, Change::Updated(told), Some(_)) => value == told,
        (Effect::Delete, Change::Deleted, Some(_)) => true,
        _ => false,
    };
    same && write.key == event.key
}

fn expects(expect: Expect, found: Option<Revision>) -> bool {
    match expect {
        Expect::Absent => found.is_none(),
        Expect::At(revision) => found == Some(revision),
    }
}

/// Up to which revision everything had been asked for at a tick.
struct Ceilings {
    /// For each commit in order: the latest tick at which it or one before it was asked.
    asked: Vec<(u64, Revision)>,
}

/// Gives each operation its place, in the order of the ticks.
fn place(
    operations: &[Operation],
    timeline: &Timeline,
    writers: &BTreeMap<Revision, usize>,
    ceilings: &Ceilings,
) -> Verdict {
    let mut happened: HashMap<usize, Revision> = HashMap::new();
    happened.extend(writers.iter().map(|(revision, index)| (*index, *revision)));
    // Questions before answers of the same tick: neither came first.
    let asked = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| (operation.asked, 0, index));
    let answered = operations
        .iter()
        .enumerate()
        .map(|(index, operation)| (operation.answered, 1, index));
    let mut ticks: Vec<_> = asked.chain(answered).collect();
    ticks.sort_unstable();
    let mut floors: HashMap<usize, Revision> = HashMap::new();
    let mut known = Revision::ZERO;
    for (_, answer, index) in ticks {
        let operation = &operations[index];
        if answer == 0 {
            floors.insert(index, known);
            continue;
        }
        let floor = floors[&index];
        let ceiling = ceilings.at(operation.answered);
        let place = match &operation.done {
            // It may yet happen after the answer: it is known to nobody by this.
            Done::Uncertain { .. } => match happened.get(&index) {
                Some(revision) if *revision <= floor => {
                    return Err(Violation::Backwards(operation.clone(), floor).into());
                }
                _ => continue,
            },
            Done::Committed { revision, .. } => {
                if *revision <= floor {
                    return Err(Violation::Backwards(operation.clone(), floor).into());
                }
                *revision
            }
            Done::Conflicted { write, shown } => {
                if expects(write.expect, shown.as_ref().map(|entry| entry.revision)) {
                    return Err(Violation::Unjustified(operation.clone()).into());
                }
                lowest(operation, timeline.spans(&write.key, shown.as_ref()), floor)?
            }
            Done::Got { key, entry } => lowest(operation, timeline.spans(key, entry.as_ref()), floor)?,
            Done::Listed { prefix, page, range } => {
                let expected = timeline.range(prefix, page, range.revision);
                if *range != expected || page.at.is_some_and(|at| at != range.revision) {
                    return Err(Violation::Torn(operation.clone(), expected).into());
                }
                if page.at.is_none() && range.revision < floor {
                    return Err(Violation::Stale(operation.clone(), floor).into());
                }
                range.revision
            }
            Done::Stood { revision } if *revision < floor => {
                return Err(Violation::Stale(operation.clone(), floor).into());
            }
            Done::Stood { revision } => *revision,
        };
        if place > ceiling {
            return Err(Violation::Premature(operation.clone()).into());
        }
        known = known.max(place);
    }
    Ok(())
}

/// The lowest place for a read that was true during the spans.
fn lowest(operation: &Operation, spans: Vec<super::timeline::Span>, floor: Revision) -> Verdict<Revision> {
    if spans.is_empty() {
        return Err(Violation::Phantom(operation.clone()).into());
    }
    spans
        .into_iter()
        .find(|span| span.until > floor)
        .map(|span| span.from.max(floor))
        .ok_or_else(|| Violation::Stale(operation.clone(), floor).into())
}

// --- Ceilings ---

impl Ceilings {
    fn new(operations: &[Operation], log: &[Event], writers: &BTreeMap<Revision, usize>) -> Self {
        let mut latest = 0;
        let asked = log
            .iter()
            .map(|event| {
                latest = latest.max(operations[writers[&event.revision]].asked);
                (latest, event.revision)
            })
            .collect();
        Self { asked }
    }

    fn at(&self, tick: u64) -> Revision {
        let first_later = self.asked.partition_point(|(asked, _)| *asked <= tick);
        self.asked
            .get(first_later)
            .map_or(NEVER, |(_, revision)| Revision::new(revision.get() - 1))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use k3_storage::{Entry, Page, Range};

    use super::*;
    use crate::acts::{key, prefix};

    /// A history that is put together by hand.
    #[derive(Default)]
    struct Script {
        operations: Vec<Operation>,
        log: Vec<Event>,
    }

    impl Script {
        /// Adds what was asked and answered at these ticks.
        fn did(mut self, asked: u64, answered: u64, done: Done) -> Self {
            self.operations.push(Operation {
                asked,
                answered,
                done,
            });
            self
        }

        fn log(mut self, revision: u64, name: &str, change: Change) -> Self {
            self.log.push(Event {
                revision: Revision::new(revision),
                key: key(name),
                change,
            });
            self
        }

        fn verdict(&self) -> String {
            match check(&self.operations, &self.log) {
                Ok(()) => "sound".to_owned(),
                Err(violation) => format!("{violation:?}")
                    .split(['(', ' '])
                    .next()
                    .unwrap()
                    .to_owned(),
            }
        }
    }

    fn created(value: &'static str) -> Change {
        Change::Created(value.into())
    }

    fn updated(value: &'static str) -> Change {
        Change::Updated(value.into())
    }

    fn create(value: &'static str, revision: u64) -> Done {
        Done::Committed {
            write: Write::create(key("/a"), value),
            revision: Revision::new(revision),
        }
    }

    fn update(expected: u64, value: &'static str, revision: u64) -> Done {
        Done::Committed {
            write: Write::update(key("/a"), Revision::new(expected), value),
            revision: Revision::new(revision),
        }
    }

    fn entry(value: &'static str, revision: u64) -> Entry {
        Entry {
            key: key("/a"),
            value: Bytes::from(value),
            revision: Revision::new(revision),
            expiry: None,
        }
    }

    fn got(entry: Option<Entry>) -> Done {
        Done::Got {
            key: key("/a"),
            entry,
        }
    }

    fn listed(at: Option<u64>, revision: u64, entries: Vec<Entry>) -> Done {
        Done::Listed {
            prefix: prefix("/"),
            page: Page {
                at: at.map(Revision::new),
                ..Page::all()
            },
            range: Range {
                entries,
                revision: Revision::new(revision),
                more: false,
            },
        }
    }

    /// One is created at 2, and updated at 3 after that was answered.
    fn two_commits() -> Script {
        Script::default()
            .did(0, 1, create("x", 2))
            .did(10, 20, update(2, "y", 3))
            .log(2, "/a", created("x"))
            .log(3, "/a", updated("y"))
    }

    #[test]
    fn a_sound_history_passes() {
        let script = two_commits()
            .did(2, 3, got(Some(entry("x", 2))))
            .did(11, 12, got(Some(entry("x", 2))))
            .did(13, 14, got(Some(entry("y", 3))))
            .did(
                15,
                16,
                Done::Stood {
                    revision: Revision::new(3),
                },
            )
            .did(21, 22, listed(None, 3, vec![entry("y", 3)]))
            .did(23, 24, listed(Some(2), 2, vec![entry("x", 2)]))
            .did(
                25,
                26,
                Done::Conflicted {
                    write: Write::update(key("/a"), Revision::new(2), "z"),
                    shown: Some(entry("y", 3)),
                },
            );
        assert_eq!(script.verdict(), "sound");
    }

    #[test]
    fn a_lost_write_is_caught() {
        let script = Script::default().did(0, 1, create("x", 2));
        assert_eq!(script.verdict(), "Lost");
    }

    #[test]
    fn an_altered_write_is_caught() {
        let script = Script::default().did(0, 1, create("x", 2));
        assert_eq!(script.log(2, "/a", created("z")).verdict(), "Altered");
        let script = Script::default().did(0, 1, create("x", 2));
        assert_eq!(script.log(2, "/b", created("x")).verdict(), "Altered");
        let script = Script::default().did(0, 1, create("x", 2));
        assert_eq!(script.log(2, "/a", updated("x")).verdict(), "Altered");
    }

    #[test]
    fn a_write_that_happened_twice_is_caught() {
        let script = two_commits().log(4, "/a", updated("y"));
        assert_eq!(script.verdict(), "Unexplained");
    }

    #[test]
    fn a_revision_that_was_used_twice_is_caught() {
        let script = two_commits().did(30, 31, update(2, "z", 3));
        assert_eq!(script.verdict(), "Reused");
    }

    #[test]
    fn two_winners_of_one_comparison_are_caught() {
        let script = two_commits()
            .did(11, 21, update(2, "z", 4))
            .log(4, "/a", updated("z"));
        assert_eq!(script.verdict(), "Illegal");
    }

    #[test]
    fn a_log_out_of_order_is_caught() {
        let script = two_commits().log(3, "/b", created("z"));
        assert_eq!(script.verdict(), "Disorder");
    }

    #[test]
    fn a_stale_read_is_caught() {
        let script = two_commits().did(21, 22, got(Some(entry("x", 2))));
        assert_eq!(script.verdict(), "Stale");
        let script = two_commits().did(21, 22, got(None));
        assert_eq!(script.verdict(), "Stale");
        let script = two_commits().did(21, 22, listed(None, 2, vec![entry("x", 2)]));
        assert_eq!(script.verdict(), "Stale");
        let script = two_commits().did(
            21,
            22,
            Done::Stood {
                revision: Revision::new(2),
            },
        );
        assert_eq!(script.verdict(), "Stale");
    }

    #[test]
    fn reads_that_go_back_in_time_are_caught() {
        // The update is under way, so each read alone would pass: not the old one after the new one.
        let script =
            two_commits()
                .did(11, 12, got(Some(entry("y", 3))))
                .did(13, 14, got(Some(entry("x", 2))));
        assert_eq!(script.verdict(), "Stale");
    }

    #[test]
    fn a_read_of_what_never_was_is_caught() {
        let script = two_commits().did(21, 22, got(Some(entry("z", 3))));
        assert_eq!(script.verdict(), "Phantom");
        let script = two_commits().did(21, 22, got(Some(entry("y", 4))));
        assert_eq!(script.verdict(), "Phantom");
    }

    #[test]
    fn a_read_before_its_write_is_caught() {
        let script = two_commits().did(5, 6, got(Some(entry("y", 3))));
        assert_eq!(script.verdict(), "Premature");
        let script = two_commits().did(
            5,
            6,
            Done::Stood {
                revision: Revision::new(3),
            },
        );
        assert_eq!(script.verdict(), "Premature");
    }

    #[test]
    fn a_commit_below_what_was_known_is_caught() {
        let script = Script::default()
            .did(0, 1, create("x", 5))
            .did(
                2,
                3,
                Done::Committed {
                    write: Write::create(key("/b"), "y"),
                    revision: Revision::new(4),
                },
            )
            .log(4, "/b", created("y"))
            .log(5, "/a", created("x"));
        assert_eq!(script.verdict(), "Premature");
        // The same, told by a read instead of a commit.
        let script = Script::default()
            .did(
                0,
                1,
                Done::Stood {
                    revision: Revision::new(9),
                },
            )
            .did(2, 3, create("x", 5))
            .log(5, "/a", created("x"));
        assert_eq!(script.verdict(), "Premature");
        let script = Script::default()
            .did(0, 4, create("x", 5))
            .did(1, 2, got(Some(entry("x", 5))))
            .did(
                3,
                6,
                Done::Uncertain {
                    write: Write::create(key("/b"), "y"),
                },
            )
            .log(4, "/b", created("y"))
            .log(5, "/a", created("x"));
        assert_eq!(script.verdict(), "Premature");
    }

    #[test]
    fn a_torn_range_is_caught() {
        let script = two_commits().did(21, 22, listed(None, 3, vec![entry("x", 2)]));
        assert_eq!(script.verdict(), "Torn");
        let script = two_commits().did(21, 22, listed(None, 3, vec![]));
        assert_eq!(script.verdict(), "Torn");
        let script = two_commits().did(21, 22, listed(Some(2), 3, vec![entry("y", 3)]));
        assert_eq!(script.verdict(), "Torn");
    }

    #[test]
    fn a_conflict_without_a_reason_is_caught() {
        let conflict = |shown| Done::Conflicted {
            write: Write::update(key("/a"), Revision::new(3), "z"),
            shown,
        };
        let script = two_commits().did(21, 22, conflict(Some(entry("y", 3))));
        assert_eq!(script.verdict(), "Unjustified");
        let script = two_commits().did(21, 22, conflict(Some(entry("x", 2))));
        assert_eq!(script.verdict(), "Stale");
        let script = two_commits().did(21, 22, conflict(None));
        assert_eq!(script.verdict(), "Stale");
    }

    #[test]
    fn a_write_that_said_conflict_and_happened_is_caught() {
        let script = two_commits()
            .did(
                21,
                22,
                Done::Conflicted {
                    write: Write::update(key("/a"), Revision::new(2), "z"),
                    shown: Some(entry("y", 3)),
                },
            )
            .log(4, "/a", updated("z"));
        assert_eq!(script.verdict(), "Unexplained");
    }

    #[test]
    fn an_uncertain_write_may_have_happened_or_not_but_only_once_and_as_written() {
        let uncertain = || Done::Uncertain {
            write: Write::update(key("/a"), Revision::new(3), "z"),
        };
        assert_eq!(two_commits().did(21, 22, uncertain()).verdict(), "sound");
        let happened = || two_commits().did(21, 22, uncertain()).log(4, "/a", updated("z"));
        assert_eq!(happened().verdict(), "sound");
        // Also after its writer gave up.
        assert_eq!(
            happened().did(30, 31, got(Some(entry("y", 3)))).verdict(),
            "sound"
        );
        // But what was seen of it stays.
        let seen = happened()
            .did(30, 31, got(Some(entry("z", 4))))
            .did(32, 33, got(Some(entry("y", 3))));
        assert_eq!(seen.verdict(), "Stale");
        let twice = happened().log(5, "/a", updated("z"));
        assert_eq!(twice.verdict(), "Unexplained");
        let other = two_commits().did(21, 22, uncertain()).log(4, "/a", updated("w"));
        assert_eq!(other.verdict(), "Unexplained");
        let unexpected = two_commits()
            .did(21, 22, uncertain())
            .did(23, 24, update(3, "v", 4))
            .log(4, "/a", updated("v"))
            .log(5, "/a", updated("z"));
        assert_eq!(unexpected.verdict(), "Unexplained");
    }
}
