//! What was measured of controllers and scheduler.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::memory::MemoryRow;
use crate::{
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound, figure},
    table::{Table, grouped, mebibytes},
};

pub(super) const NAMESPACE: &str = "a namespace is deleted";
pub(super) const ROLLING: &str = "a rolling update, bounds kept";

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct WorkloadReport {
    machine: MachineInfo,
    pub(super) rows: Vec<Row>,
    pub(super) memory: Option<MemoryRow>,
    requirements: Vec<Requirement>,
}

/// One scene.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) objects: usize,
    #[serde(serialize_with = "seconds")]
    pub(super) took: Duration,
    #[serde(serialize_with = "seconds")]
    pub(super) cpu: Duration,
}

/// What upstream does, five times as fast and for a tenth of the CPU time.
const RATES: &[(&str, &str, f64)] = &[
    (
        "10 x 100 pods on 50 nodes, bound",
        "10 x 100 pods bound, pods/s",
        5.0 * 169.0,
    ),
    (
        "50 x 100 pods on 500 nodes, bound",
        "50 x 100 pods bound, pods/s",
        5.0 * 35.0,
    ),
];
const COSTS: &[(&str, &str, f64)] = &[
    (
        "10 x 100 pods on 50 nodes, bound",
        "10 x 100 pods bound, CPU s per 1,000",
        1.9,
    ),
    (
        "50 x 100 pods on 500 nodes, bound",
        "50 x 100 pods bound, CPU s per 1,000",
        3.0,
    ),
    (
        "50 x 100 pods, deleted",
        "50 x 100 pods deleted, CPU s per 1,000",
        2.1,
    ),
];

impl WorkloadReport {
    pub(super) fn new(machine: MachineInfo) -> Self {
        WorkloadReport {
            machine,
            rows: Vec::new(),
            memory: None,
            requirements: Vec::new(),
        }
    }

    pub(super) fn check_requirements(&mut self) {
        let of = |name: &str| self.rows.iter().find(|row| row.name == name);
        let rates = RATES.iter().map(|(name, what, asked)| {
            Requirement::new(*what, RequirementBound::AtLeast(*asked), of(name).map(Row::rate))
        });
        let costs = COSTS.iter().map(|(name, what, asked)| {
            Requirement::new(*what, RequirementBound::AtMost(*asked), of(name).map(Row::cost))
        });
        let times = [
            (NAMESPACE, "a namespace with 5,000 objects deleted, s", 5.0),
            (ROLLING, "a rolling update of 1,000 pods, s", 20.0),
        ];
        let times = times.map(|(name, what, asked)| {
            Requirement::new(
                what,
                RequirementBound::AtMost(asked),
                of(name).map(|row| row.took.as_secs_f64()),
            )
        });
        let memory = self.memory.as_ref().filter(|row| row.pods >= 10_000);
        let memory = Requirement::new(
            "controllers and scheduler with 10,000 pods, MiB",
            RequirementBound::AtMost(60.0),
            memory.map(MemoryRow::beyond),
        );
        self.requirements = rates.chain(costs).chain(times).chain([memory]).collect();
    }

    pub(super) fn print(&self) {
        print_rows(&self.rows, "Controllers and scheduler");
        let mut table = Table::new(["", "API server alone MiB", "all MiB", "the rest MiB"]);
        if let Some(row) = &self.memory {
            table.row([
                format!("{} pods", row.pods),
                figure(mebibytes(row.alone_bytes)),
                figure(mebibytes(row.together_bytes)),
                figure(row.beyond()),
            ]);
        }
        table.print("Memory");
        requirement::print(&self.requirements);
    }
}

/// The rows as a table.
pub(super) fn print_rows(rows: &[Row], title: &str) {
    let mut table = Table::new(["", "objects", "seconds", "per second", "CPU s per 1,000"]);
    for row in rows {
        table.row([
            row.name.to_owned(),
            row.objects.to_string(),
            format!("{:.2}", row.took.as_secs_f64()),
            grouped(row.rate()),
            format!("{:.2}", row.cost()),
        ]);
    }
    table.print(title);
}

impl MemoryRow {
    /// What all the rest takes beyond the API server, in mebibytes.
    fn beyond(&self) -> f64 {
        mebibytes(self.together_bytes.saturating_sub(self.alone_bytes))
    }
}

impl Row {
    fn rate(&self) -> f64 {
        count(self.objects) / self.took.as_secs_f64()
    }

    /// CPU seconds for 1,000 objects.
    fn cost(&self) -> f64 {
        self.cpu.as_secs_f64() * 1_000.0 / count(self.objects)
    }
}

/// A number of objects; no benchmark has more than a float can count.
fn count(objects: usize) -> f64 {
    u32::try_from(objects).map_or(f64::INFINITY, f64::from)
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
