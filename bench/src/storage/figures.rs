//! What is asked of the stores, beside what was measured.

use serde::Serialize;

use super::{load::CommitRow, report::StorageReport};

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) what: &'static str,
    pub(crate) asked: Bound,
    /// `None` when it was not measured in this run.
    pub(crate) measured: Option<f64>,
    pub(crate) met: Option<bool>,
}

/// A limit on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Sets all figures beside what is asked.
pub(crate) fn compare(report: &StorageReport) -> Vec<Verdict> {
    let commits = |target, writers| report.commits_of(target, writers);
    let cpu = |row: &CommitRow| row.own_cpu_us + row.server_cpu_us;
    let file_128 = commits("file", 128);
    let delivery = |target: &str| report.delivery.iter().find(|row| row.target == target);
    vec![
        verdict(
            "file, 128 writers: us of CPU per commit",
            Bound::AtMost(30.0),
            file_128.map(cpu),
        ),
        verdict(
            "file, 128 writers: times the commits/s of bare etcd",
            Bound::AtLeast(3.0),
            ratio(file_128.map(rate), commits("bare etcd", 128).map(rate)),
        ),
        verdict(
            "file, 1 writer: share of the raw fdatasync rate",
            Bound::AtLeast(0.4),
            report
                .lone
                .map(|lone| lone.commits_per_second / lone.syncs_per_second),
        ),
        verdict(
            "memory, 128 writers: commits per second of CPU",
            Bound::AtLeast(300_000.0),
            commits("memory", 128).map(|row| 1e6 / cpu(row)),
        ),
        verdict(
            "file: bytes on disk per live byte after compaction",
            Bound::AtMost(2.5),
            report.size.as_ref().map(super::report::bytes_per_live_byte),
        ),
        verdict(
            "memory: watch delivery from the call, p99 in us",
            Bound::AtMost(1000.0),
            delivery("memory").map(|row| row.from_call.p99_us),
        ),
        verdict(
            "file: watch delivery from the answer, p99 in us",
            Bound::AtMost(1000.0),
            delivery("file").map(|row| row.from_answer.p99_us),
        ),
    ]
}

fn rate(row: &CommitRow) -> f64 {
    row.commits_per_second
}

fn ratio(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    Some(one? / other?)
}

fn verdict(what: &'static str, asked: Bound, measured: Option<f64>) -> Verdict {
    Verdict {
        what,
        asked,
        measured,
        met: measured.map(|measured| asked.holds(measured)),
    }
}

// --- Bound ---

impl Bound {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtMost(limit) => measured <= limit,
            Self::AtLeast(limit) => measured >= limit,
        }
    }
}
