//! What is asked of the stores, beside what was measured.

use super::{load::CommitRow, report::StorageReport};
use crate::requirement::{Requirement, RequirementBound};

/// Compares all results with what is asked.
pub(crate) fn compare(report: &StorageReport) -> Vec<Requirement> {
    let commits = |target, writers| report.commits_of(target, writers);
    let cpu = |row: &CommitRow| row.own_cpu_us + row.server_cpu_us;
    let file_128 = commits("file", 128);
    let delivery = |target: &str| report.delivery.iter().find(|row| row.target == target);
    vec![
        Requirement::new(
            "file, 128 writers: us of CPU per commit",
            RequirementBound::AtMost(30.0),
            file_128.map(cpu),
        ),
        Requirement::new(
            "file, 128 writers: times the commits/s of bare etcd",
            RequirementBound::AtLeast(3.0),
            ratio(file_128.map(rate), commits("bare etcd", 128).map(rate)),
        ),
        Requirement::new(
            "file, 1 writer: share of the raw fdatasync rate",
            RequirementBound::AtLeast(0.4),
            report
                .lone
                .map(|lone| lone.commits_per_second / lone.syncs_per_second),
        ),
        Requirement::new(
            "memory, 128 writers: commits per second of CPU",
            RequirementBound::AtLeast(300_000.0),
            commits("memory", 128).map(|row| 1e6 / cpu(row)),
        ),
        Requirement::new(
            "file: bytes on disk per live byte after compaction",
            RequirementBound::AtMost(2.5),
            report.size.as_ref().map(super::report::bytes_per_live_byte),
        ),
        Requirement::new(
            "memory: watch delivery from the call, p99 in us",
            RequirementBound::AtMost(1000.0),
            delivery("memory").map(|row| row.from_call.p99_us),
        ),
        Requirement::new(
            "file: watch delivery from the answer, p99 in us",
            RequirementBound::AtMost(1000.0),
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
