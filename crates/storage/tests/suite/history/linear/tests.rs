//! Histories put together by hand, one for each way to break a promise.

use bytes::Bytes;
use k3_storage::{Entry, Page, Range};

use super::*;
use crate::store_ext::{key, prefix};

/// A history that is put together by hand.
#[derive(Default)]
struct Script {
    operations: Vec<Operation>,
    log: Vec<Event>,
}

impl Script {
    /// Adds what was requested and answered at these ticks.
    fn did(mut self, requested: u64, answered: u64, done: OperationResult) -> Self {
        self.operations.push(Operation {
            requested,
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

    fn result(&self) -> String {
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

fn create(value: &'static str, revision: u64) -> OperationResult {
    OperationResult::Committed {
        write: Write::create(key("/a"), value),
        revision: Revision::new(revision),
    }
}

fn update(expected: u64, value: &'static str, revision: u64) -> OperationResult {
    OperationResult::Committed {
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

fn got(entry: Option<Entry>) -> OperationResult {
    OperationResult::Got {
        key: key("/a"),
        entry,
    }
}

fn listed(at: Option<u64>, revision: u64, entries: Vec<Entry>) -> OperationResult {
    OperationResult::Listed {
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
fn accepts_a_valid_history() {
    let script = two_commits()
        .did(2, 3, got(Some(entry("x", 2))))
        .did(11, 12, got(Some(entry("x", 2))))
        .did(13, 14, got(Some(entry("y", 3))))
        .did(
            15,
            16,
            OperationResult::ReadRevision {
                revision: Revision::new(3),
            },
        )
        .did(21, 22, listed(None, 3, vec![entry("y", 3)]))
        .did(23, 24, listed(Some(2), 2, vec![entry("x", 2)]))
        .did(
            25,
            26,
            OperationResult::Conflicted {
                write: Write::update(key("/a"), Revision::new(2), "z"),
                shown: Some(entry("y", 3)),
            },
        );
    assert_eq!(script.result(), "sound");
}

#[test]
fn detects_a_lost_write() {
    let script = Script::default().did(0, 1, create("x", 2));
    assert_eq!(script.result(), "Lost");
}

#[test]
fn detects_an_altered_write() {
    let script = Script::default().did(0, 1, create("x", 2));
    assert_eq!(script.log(2, "/a", created("z")).result(), "Altered");
    let script = Script::default().did(0, 1, create("x", 2));
    assert_eq!(script.log(2, "/b", created("x")).result(), "Altered");
    let script = Script::default().did(0, 1, create("x", 2));
    assert_eq!(script.log(2, "/a", updated("x")).result(), "Altered");
}

#[test]
fn detects_a_repeated_write() {
    let script = two_commits().log(4, "/a", updated("y"));
    assert_eq!(script.result(), "Unexplained");
}

#[test]
fn detects_a_reused_revision() {
    let script = two_commits().did(30, 31, update(2, "z", 3));
    assert_eq!(script.result(), "Reused");
}

#[test]
fn detects_two_winners_of_a_comparison() {
    let script = two_commits()
        .did(11, 21, update(2, "z", 4))
        .log(4, "/a", updated("z"));
    assert_eq!(script.result(), "Illegal");
}

#[test]
fn detects_an_unordered_log() {
    let script = two_commits().log(3, "/b", created("z"));
    assert_eq!(script.result(), "Disorder");
}

#[test]
fn detects_a_stale_read() {
    let script = two_commits().did(21, 22, got(Some(entry("x", 2))));
    assert_eq!(script.result(), "Stale");
    let script = two_commits().did(21, 22, got(None));
    assert_eq!(script.result(), "Stale");
    let script = two_commits().did(21, 22, listed(None, 2, vec![entry("x", 2)]));
    assert_eq!(script.result(), "Stale");
    let script = two_commits().did(
        21,
        22,
        OperationResult::ReadRevision {
            revision: Revision::new(2),
        },
    );
    assert_eq!(script.result(), "Stale");
}

#[test]
fn detects_reads_that_go_back_in_time() {
    // The update is under way, so each read alone would pass: not the old one after the new one.
    let script = two_commits()
        .did(11, 12, got(Some(entry("y", 3))))
        .did(13, 14, got(Some(entry("x", 2))));
    assert_eq!(script.result(), "Stale");
}

#[test]
fn detects_a_read_of_an_unwritten_value() {
    let script = two_commits().did(21, 22, got(Some(entry("z", 3))));
    assert_eq!(script.result(), "Phantom");
    let script = two_commits().did(21, 22, got(Some(entry("y", 4))));
    assert_eq!(script.result(), "Phantom");
}

#[test]
fn detects_a_read_before_its_write() {
    let script = two_commits().did(5, 6, got(Some(entry("y", 3))));
    assert_eq!(script.result(), "Premature");
    let script = two_commits().did(
        5,
        6,
        OperationResult::ReadRevision {
            revision: Revision::new(3),
        },
    );
    assert_eq!(script.result(), "Premature");
}

#[test]
fn detects_a_commit_below_a_known_revision() {
    let script = Script::default()
        .did(0, 1, create("x", 5))
        .did(
            2,
            3,
            OperationResult::Committed {
                write: Write::create(key("/b"), "y"),
                revision: Revision::new(4),
            },
        )
        .log(4, "/b", created("y"))
        .log(5, "/a", created("x"));
    assert_eq!(script.result(), "Premature");
    // The same, reported by a read instead of a commit.
    let script = Script::default()
        .did(
            0,
            1,
            OperationResult::ReadRevision {
                revision: Revision::new(9),
            },
        )
        .did(2, 3, create("x", 5))
        .log(5, "/a", created("x"));
    assert_eq!(script.result(), "Premature");
    let script = Script::default()
        .did(0, 4, create("x", 5))
        .did(1, 2, got(Some(entry("x", 5))))
        .did(
            3,
            6,
            OperationResult::Uncertain {
                write: Write::create(key("/b"), "y"),
            },
        )
        .log(4, "/b", created("y"))
        .log(5, "/a", created("x"));
    assert_eq!(script.result(), "Premature");
}

#[test]
fn detects_a_torn_range() {
    let script = two_commits().did(21, 22, listed(None, 3, vec![entry("x", 2)]));
    assert_eq!(script.result(), "Torn");
    let script = two_commits().did(21, 22, listed(None, 3, vec![]));
    assert_eq!(script.result(), "Torn");
    let script = two_commits().did(21, 22, listed(Some(2), 3, vec![entry("y", 3)]));
    assert_eq!(script.result(), "Torn");
}

#[test]
fn detects_a_conflict_without_a_reason() {
    let conflict = |shown| OperationResult::Conflicted {
        write: Write::update(key("/a"), Revision::new(3), "z"),
        shown,
    };
    let script = two_commits().did(21, 22, conflict(Some(entry("y", 3))));
    assert_eq!(script.result(), "Unjustified");
    let script = two_commits().did(21, 22, conflict(Some(entry("x", 2))));
    assert_eq!(script.result(), "Stale");
    let script = two_commits().did(21, 22, conflict(None));
    assert_eq!(script.result(), "Stale");
}

#[test]
fn detects_an_applied_write_reported_as_conflict() {
    let script = two_commits()
        .did(
            21,
            22,
            OperationResult::Conflicted {
                write: Write::update(key("/a"), Revision::new(2), "z"),
                shown: Some(entry("y", 3)),
            },
        )
        .log(4, "/a", updated("z"));
    assert_eq!(script.result(), "Unexplained");
}

#[test]
fn an_uncertain_write_is_applied_at_most_once() {
    let uncertain = || OperationResult::Uncertain {
        write: Write::update(key("/a"), Revision::new(3), "z"),
    };
    assert_eq!(two_commits().did(21, 22, uncertain()).result(), "sound");
    let happened = || two_commits().did(21, 22, uncertain()).log(4, "/a", updated("z"));
    assert_eq!(happened().result(), "sound");
    // Also after its writer gave up.
    assert_eq!(happened().did(30, 31, got(Some(entry("y", 3)))).result(), "sound");
    // But what was seen of it stays.
    let seen = happened()
        .did(30, 31, got(Some(entry("z", 4))))
        .did(32, 33, got(Some(entry("y", 3))));
    assert_eq!(seen.result(), "Stale");
    let twice = happened().log(5, "/a", updated("z"));
    assert_eq!(twice.result(), "Unexplained");
    let other = two_commits().did(21, 22, uncertain()).log(4, "/a", updated("w"));
    assert_eq!(other.result(), "Unexplained");
    let unexpected = two_commits()
        .did(21, 22, uncertain())
        .did(23, 24, update(3, "v", 4))
        .log(4, "/a", updated("v"))
        .log(5, "/a", updated("z"));
    assert_eq!(unexpected.result(), "Unexplained");
}
