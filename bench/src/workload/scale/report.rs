//! What was measured of a large cluster.

use serde::Serialize;

use super::super::report::{Row, print_rows};
use crate::{
    BenchError,
    latency::Percentiles,
    machine::MachineInfo,
    memory,
    requirement::{self, Requirement, RequirementBound, figure},
    table::{Table, mebibytes},
};

pub(super) const NODES: &str = "nodes ready";
pub(super) const PODS: &str = "pods available";
pub(super) const CHURN: &str = "pods died";

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct ScaleReport {
    machine: MachineInfo,
    pub(super) rows: Vec<Row>,
    pub(super) waits: Vec<WaitRow>,
    memory: Vec<MemoryRow>,
    requirements: Vec<Requirement>,
}

/// What clients waited for single objects while pods died.
#[derive(Debug, Serialize)]
pub(super) struct WaitRow {
    pub(super) verb: &'static str,
    pub(super) requests: usize,
    pub(super) latency: Percentiles,
}

/// Resident memory of the whole process.
#[derive(Debug, Serialize)]
pub(super) struct MemoryRow {
    when: &'static str,
    resident_bytes: u64,
    peak_bytes: u64,
}

// --- ScaleReport ---

impl ScaleReport {
    pub(super) fn new(machine: MachineInfo) -> Self {
        ScaleReport {
            machine,
            rows: Vec::new(),
            waits: Vec::new(),
            memory: Vec::new(),
            requirements: Vec::new(),
        }
    }

    /// Writes down what the server weighs now.
    pub(super) fn weigh(&mut self, when: &'static str, server: u32) -> Result<(), BenchError> {
        let server = server.to_string();
        let row = MemoryRow {
            when,
            resident_bytes: memory::resident(&server)?,
            peak_bytes: memory::peak(&server)?,
        };
        eprintln!("{when}: {:.0} MiB", mebibytes(row.resident_bytes));
        self.memory.push(row);
        Ok(())
    }

    pub(super) fn check_requirements(&mut self) {
        let worst = self.waits.iter().map(|row| row.latency.p99_us / 1e6);
        let worst = worst.fold(None, |worst: Option<f64>, p99| {
            Some(worst.map_or(p99, |worst| worst.max(p99)))
        });
        let what = "single objects while 20 pods die in a second, worst p99, s";
        self.requirements = vec![Requirement::new(what, RequirementBound::AtMost(1.0), worst)];
    }

    pub(super) fn print(&self) {
        print_rows(&self.rows, "Nodes and pods");
        let mut table = Table::new(["", "requests", "p50 ms", "p99 ms"]);
        for row in &self.waits {
            table.row([
                row.verb.to_owned(),
                row.requests.to_string(),
                format!("{:.2}", row.latency.p50_us / 1e3),
                format!("{:.2}", row.latency.p99_us / 1e3),
            ]);
        }
        table.print("Single objects while pods die");
        let mut table = Table::new(["", "MiB", "peak MiB"]);
        for row in &self.memory {
            table.row([
                row.when.to_owned(),
                figure(mebibytes(row.resident_bytes)),
                figure(mebibytes(row.peak_bytes)),
            ]);
        }
        table.print("Memory of the process");
        requirement::print(&self.requirements);
    }
}
