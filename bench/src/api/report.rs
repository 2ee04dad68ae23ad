//! All that was measured, as JSON and as tables.

use serde::Serialize;

use super::{
    against::{self, ComparedRow},
    disturbance::DisturbanceRow,
    state::{self, StartRow, WeightRow},
    upstream::{OperationRow, UPSTREAM},
};
use crate::{
    choices::BenchEffort,
    flags::ApiOptions,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound},
    table::{Table, grouped, mebibytes},
};

/// Everything, in the order in which it was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ApiReport {
    pub(crate) machine: MachineInfo,
    pub(crate) quick: bool,
    /// Of the load; the server may be another.
    pub(crate) release_build: bool,
    pub(crate) storage: &'static str,
    pub(crate) connections: usize,
    pub(crate) starts: Vec<StartRow>,
    pub(crate) operations: Vec<OperationRow>,
    pub(crate) disturbance: Option<DisturbanceRow>,
    pub(crate) weight: Option<WeightRow>,
    pub(crate) asked: Vec<Requirement>,
    /// Beside another run, if one was given.
    pub(crate) against: Vec<ComparedRow>,
    /// What could not be measured, and why.
    pub(crate) failures: Vec<String>,
}

// --- ApiReport ---

impl ApiReport {
    pub(crate) fn new(machine: MachineInfo, options: &ApiOptions) -> Self {
        Self {
            machine,
            quick: options.effort == BenchEffort::Quick,
            release_build: !cfg!(debug_assertions),
            storage: options.storage.name(),
            connections: options.connections,
            starts: Vec::new(),
            operations: Vec::new(),
            disturbance: None,
            weight: None,
            asked: Vec::new(),
            against: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Compares the results with what is asked; the operations carry theirs.
    pub(crate) fn check_requirements(&mut self) {
        let start = |objects: u32| {
            let mut starts = self.starts.iter();
            starts.find(|start| start.objects == objects as usize)
        };
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let met = self.operations.iter().filter(|row| row.met).count() as f64;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let all = UPSTREAM.len() as f64;
        // Of few objects the memory that requests took weighs more than they do.
        let weight = self
            .weight
            .as_ref()
            .filter(|weight| weight.objects == state::OBJECTS as usize);
        let slowest = self.operations.iter().map(|row| row.rate_ratio).reduce(f64::min);
        self.asked = vec![
            Requirement::new(
                "operations within the CPU time asked",
                RequirementBound::AtLeast(all),
                Some(met),
            ),
            Requirement::new(
                "times upstream's rate, the slowest operation",
                RequirementBound::AtLeast(1.0),
                slowest,
            ),
            Requirement::new(
                "start to /readyz, empty, ms",
                RequirementBound::AtMost(150.0),
                start(0).map(|start| start.ms),
            ),
            Requirement::new(
                "start to /readyz, 50,000 objects, ms",
                RequirementBound::AtMost(1500.0),
                start(state::OBJECTS).map(|start| start.ms),
            ),
            Requirement::new(
                "memory after start, MiB",
                RequirementBound::AtMost(30.0),
                start(0).map(|start| mebibytes(start.resident_bytes)),
            ),
            Requirement::new(
                "memory per stored byte",
                RequirementBound::AtMost(2.0),
                weight.map(WeightRow::per_stored_byte),
            ),
            Requirement::new(
                "times the writers' p99 beside lists of 10,000 Pods",
                RequirementBound::AtMost(2.0),
                self.disturbance.as_ref().map(DisturbanceRow::rise),
            ),
        ];
    }

    pub(crate) fn print(&self) {
        if !self.release_build {
            println!("\nThis is a debug build: its results mean nothing.");
        }
        if !self.machine.on_disk {
            println!("\nThe data is in memory (tmpfs), not on a disk: choose another directory with --dir.");
        }
        self.print_operations();
        self.print_state();
        requirement::print(&self.asked);
        if !self.against.is_empty() {
            against::print(&self.against);
        }
        for failure in &self.failures {
            println!("\nnot measured: {failure}");
        }
    }

    fn print_operations(&self) {
        let mut table = Table::new([
            "",
            "ops/s",
            "p50 us",
            "p99 us",
            "bytes",
            "CPU s/1,000",
            "upstream",
            "times less",
            "asked",
            "met",
            "times the rate",
            "errors",
        ]);
        for row in &self.operations {
            table.row([
                row.operation.to_owned(),
                requirement::figure(row.per_second),
                grouped(row.p50_us),
                grouped(row.p99_us),
                row.answer_bytes.to_string(),
                format!("{:.4}", row.cpu_s_per_1000),
                format!("{}", row.upstream.cpu_s_per_1000),
                row.cpu_ratio
                    .map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
                format!("{}", row.upstream.asked),
                requirement::answer(Some(row.met)).to_owned(),
                format!("{:.1}", row.rate_ratio),
                row.errors.to_string(),
            ]);
        }
        table.print(&format!(
            "Operations, {} connections, storage {} (CPU time of the server alone)",
            self.connections, self.storage
        ));
        for row in &self.operations {
            if let Some(error) = &row.first_error {
                println!("  {}: {error}", row.operation);
            }
        }
    }

    fn print_state(&self) {
        let mut table = Table::new(["", "to /readyz, ms", "memory MiB"]);
        for row in &self.starts {
            table.row([
                format!("{} objects", row.objects),
                format!("{:.0}", row.ms),
                format!("{:.1}", mebibytes(row.resident_bytes)),
            ]);
        }
        table.print("Start");
        let mut table = Table::new(["", "stored MiB", "empty MiB", "full MiB", "per stored byte"]);
        if let Some(row) = &self.weight {
            table.row([
                format!("{} ConfigMaps", row.objects),
                format!("{:.1}", mebibytes(row.stored_bytes)),
                format!("{:.1}", mebibytes(row.before_bytes)),
                format!("{:.1}", mebibytes(row.after_bytes)),
                format!("{:.2}", row.per_stored_byte()),
            ]);
        }
        table.print("Memory (resident)");
        let mut table = Table::new(["", "lists", "p50 us", "p99 us"]);
        if let Some(row) = &self.disturbance {
            for (when, lists, latency) in [
                ("alone", 0, row.alone),
                ("beside lists", row.lists, row.beside_lists),
            ] {
                table.row([
                    format!("{} writes/s, {when}", row.writes_per_second),
                    lists.to_string(),
                    grouped(latency.p50_us),
                    grouped(latency.p99_us),
                ]);
            }
        }
        table.print("Writers beside lists of 10,000 Pods");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choices::Backend;

    fn report(starts: Vec<StartRow>) -> ApiReport {
        let machine = MachineInfo {
            cores: 1,
            kernel: String::new(),
            on_disk: true,
        };
        let options = ApiOptions {
            effort: BenchEffort::Quick,
            storage: Backend::File,
            connections: 1,
            against: None,
            binary: None,
            dir: None,
            json: None,
        };
        let mut report = ApiReport::new(machine, &options);
        report.starts = starts;
        report.check_requirements();
        report
    }

    #[test]
    fn a_start_with_fewer_objects_than_asked_is_no_answer() {
        let start = |objects, ms| StartRow {
            objects,
            ms,
            resident_bytes: 31 << 20,
        };
        let report = report(vec![start(0, 120.0), start(5_000, 80.0)]);
        let met = |text: &str| {
            let mut asked = report.asked.iter();
            asked
                .find(|requirement| requirement.what.contains(text))
                .unwrap()
                .met
        };
        assert_eq!(met("empty"), Some(true));
        assert_eq!(met("50,000"), None);
        assert_eq!(met("after start"), Some(false));
    }
}
