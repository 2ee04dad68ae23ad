//! What was measured of commands.

use serde::Serialize;

use crate::{
    latency::Percentiles,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound, figure},
    table::{Table, mebibytes},
};

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct CommandReport {
    machine: MachineInfo,
    binary_bytes: u64,
    pub(super) commands: Vec<CommandRow>,
    pub(super) migrations: Vec<MigrateRow>,
    requirements: Vec<Requirement>,
}

/// A command, run repeatedly.
#[derive(Debug, Serialize)]
pub(super) struct CommandRow {
    pub(super) name: &'static str,
    pub(super) runs: usize,
    pub(super) took: Percentiles,
}

/// Objects of a file, moved into a database.
#[derive(Debug, Serialize)]
pub(super) struct MigrateRow {
    pub(super) to: &'static str,
    pub(super) objects: usize,
    /// With the check that all have arrived.
    pub(super) seconds: f64,
}

/// How many milliseconds half of the runs may take.
const ASKED: [(&str, f64); 2] = [("test-env -- true", 250.0), ("get pods -A", 150.0)];

// --- CommandReport ---

impl CommandReport {
    pub(super) fn new(machine: MachineInfo, binary_bytes: u64) -> Self {
        CommandReport {
            machine,
            binary_bytes,
            commands: Vec::new(),
            migrations: Vec::new(),
            requirements: Vec::new(),
        }
    }

    pub(super) fn check_requirements(&mut self) {
        let size = Requirement::new(
            "the program, MiB",
            RequirementBound::AtMost(40.0),
            Some(mebibytes(self.binary_bytes)),
        );
        let commands = ASKED.into_iter().map(|(name, asked)| {
            let row = self.commands.iter().find(|row| row.name == name);
            let measured = row.map(|row| row.took.p50_us / 1000.0);
            Requirement::new(format!("{name}, ms"), RequirementBound::AtMost(asked), measured)
        });
        let migrations = self.migrations.iter().map(|row| {
            let what = format!("migrate from file to {}, objects/s", row.to);
            Requirement::new(what, RequirementBound::AtLeast(5_000.0), Some(row.rate()))
        });
        self.requirements = std::iter::once(size).chain(commands).chain(migrations).collect();
    }

    pub(super) fn print(&self) {
        let mut table = Table::new(["", "runs", "p50 ms", "p99 ms"]);
        for row in &self.commands {
            table.row([
                row.name.to_owned(),
                row.runs.to_string(),
                figure(row.took.p50_us / 1000.0),
                figure(row.took.p99_us / 1000.0),
            ]);
        }
        table.print("Commands, from start to end");
        let mut table = Table::new(["", "objects", "seconds", "per second"]);
        for row in &self.migrations {
            table.row([
                format!("file to {}", row.to),
                row.objects.to_string(),
                figure(row.seconds),
                figure(row.rate()),
            ]);
        }
        table.print("Objects are moved, and checked");
        requirement::print(&self.requirements);
    }
}

// --- MigrateRow ---

impl MigrateRow {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn rate(&self) -> f64 {
        self.objects as f64 / self.seconds
    }
}
