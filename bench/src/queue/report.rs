//! All that was measured, as JSON and as tables.

use std::time::Duration;

use serde::Serialize;

use crate::{
    choices::BenchEffort,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound},
    table::{Table, grouped},
};

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct QueueReport {
    pub(crate) machine: MachineInfo,
    pub(crate) quick: bool,
    pub(crate) release_build: bool,
    pub(crate) queue: Vec<Row>,
    pub(crate) reconciles: Vec<Row>,
    pub(crate) pending: Vec<Row>,
    pub(crate) asked: Vec<Requirement>,
}

/// A round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) keys: u32,
    pub(crate) per_second: f64,
    /// The CPU time of one key: the result that counts on a machine that is busy.
    pub(crate) cpu_ns: f64,
}

// --- Row ---

impl Row {
    pub(crate) fn new(keys: u32, took: Duration, cpu: Duration) -> Self {
        Self {
            keys,
            per_second: f64::from(keys) / took.as_secs_f64(),
            cpu_ns: cpu.as_secs_f64() * 1e9 / f64::from(keys),
        }
    }
}

// --- QueueReport ---

impl QueueReport {
    pub(crate) fn new(machine: MachineInfo, effort: BenchEffort) -> Self {
        Self {
            machine,
            quick: effort == BenchEffort::Quick,
            release_build: !cfg!(debug_assertions),
            queue: Vec::new(),
            reconciles: Vec::new(),
            pending: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn check_requirements(&mut self) {
        let rate = |rows: &[Row]| median(rows.iter().map(|row| row.per_second));
        self.asked = vec![
            Requirement::new(
                "keys added, got and done per second: one adds, four work",
                RequirementBound::AtLeast(2e6),
                rate(&self.queue),
            ),
            Requirement::new(
                "empty reconciles per second: four workers",
                RequirementBound::AtLeast(2e5),
                rate(&self.reconciles),
            ),
        ];
    }

    pub(crate) fn print(&self) {
        let mut table = Table::new(["", "keys", "per second", "CPU ns per key"]);
        let mut row = |name: &str, rows: &[Row]| {
            let (Some(first), Some(rate), Some(cpu)) = (
                rows.first(),
                median(rows.iter().map(|row| row.per_second)),
                median(rows.iter().map(|row| row.cpu_ns)),
            ) else {
                return;
            };
            table.row([
                name.to_owned(),
                grouped(f64::from(first.keys)),
                grouped(rate),
                grouped(cpu),
            ]);
        };
        row("through the queue", &self.queue);
        row("through a controller", &self.reconciles);
        let mut sizes: Vec<_> = self.pending.iter().map(|row| row.keys).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for keys in sizes {
            let of_size = self.pending.iter().filter(|row| row.keys == keys);
            row("added, then worked off", &of_size.copied().collect::<Vec<_>>());
        }
        table.print("Queues (medians)");
        requirement::print(&self.asked);
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
