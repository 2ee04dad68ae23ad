//! What was measured of the node agent.

use serde::Serialize;

use super::{crash::CrashRow, idle::IdleRow};
use crate::{
    latency::Percentiles,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound, figure},
    table::{Table, mebibytes},
};

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct NodeReport {
    machine: MachineInfo,
    pub(super) starts: Vec<StartRow>,
    pub(super) rates: Vec<RateRow>,
    pub(super) idle: Vec<IdleRow>,
    pub(super) crashes: Vec<CrashRow>,
    requirements: Vec<Requirement>,
}

/// Pods started one after the other, by turns without k3 and with it.
#[derive(Debug, Serialize)]
pub(super) struct StartRow {
    pub(super) runtime: &'static str,
    pub(super) pods: usize,
    pub(super) bare: Percentiles,
    pub(super) k3: Percentiles,
}

/// Pods started all at once.
#[derive(Debug, Serialize)]
pub(super) struct RateRow {
    pub(super) runtime: &'static str,
    pub(super) pods: usize,
    /// The best rate of the runtime alone, and how many it was asked for at a time then.
    pub(super) bare_per_second: f64,
    pub(super) bare_at_once: usize,
    pub(super) k3_per_second: f64,
    /// CPU seconds of the runtime's daemon for a pod, alone and for k3, and of k3: where the time is spent.
    pub(super) bare_daemon_cpu: f64,
    pub(super) k3_daemon_cpu: f64,
    pub(super) k3_cpu: f64,
}

// --- NodeReport ---

impl NodeReport {
    pub(super) fn new(machine: MachineInfo) -> Self {
        NodeReport {
            machine,
            starts: Vec::new(),
            rates: Vec::new(),
            idle: Vec::new(),
            crashes: Vec::new(),
            requirements: Vec::new(),
        }
    }

    pub(super) fn check_requirements(&mut self) {
        let starts = self.starts.iter().map(|row| {
            let what = format!("{}: a pod runs, beyond the runtime's time, ms", row.runtime);
            Requirement::new(what, RequirementBound::AtMost(150.0), Some(row.beyond_ms()))
        });
        let rates = self.rates.iter().map(|row| {
            let what = format!("{}: pods at once, % of the runtime's rate", row.runtime);
            Requirement::new(what, RequirementBound::AtLeast(90.0), Some(row.percent()))
        });
        let idle = self.idle.iter().flat_map(|row| {
            let what = |what: &str| format!("{}: agent idle with {} pods, {what}", row.runtime, row.pods);
            [
                Requirement::new(
                    what("MiB"),
                    RequirementBound::AtMost(25.0),
                    Some(row.beyond_mebibytes()),
                ),
                Requirement::new(
                    what("% of a core"),
                    RequirementBound::AtMost(1.0),
                    Some(row.beyond_cpu()),
                ),
            ]
        });
        let crashes = self.crashes.iter().flat_map(|row| {
            let requirement = |what: &str, counted: usize| {
                let what = format!(
                    "{}: {} kills with {} pods, {what}",
                    row.runtime, row.kills, row.pods
                );
                let counted = u32::try_from(counted).map_or(f64::INFINITY, f64::from);
                Requirement::new(what, RequirementBound::AtMost(0.0), Some(counted))
            };
            [
                requirement("containers restarted", row.restarted),
                requirement("containers leaked", row.leaked),
                requirement("statuses wrong", row.wrong),
            ]
        });
        self.requirements = starts.chain(rates).chain(idle).chain(crashes).collect();
    }

    pub(super) fn print(&self) {
        let mut table = Table::new([
            "",
            "pods",
            "runtime p50 ms",
            "p99",
            "k3 p50 ms",
            "p99",
            "beyond ms",
        ]);
        for row in &self.starts {
            table.row([
                row.runtime.to_owned(),
                row.pods.to_string(),
                figure(row.bare.p50_us / 1000.0),
                figure(row.bare.p99_us / 1000.0),
                figure(row.k3.p50_us / 1000.0),
                figure(row.k3.p99_us / 1000.0),
                figure(row.beyond_ms()),
            ]);
        }
        table.print("A pod is made and runs");
        let mut table = Table::new([
            "",
            "pods",
            "runtime/s",
            "at a time",
            "daemon CPU ms",
            "k3/s",
            "daemon CPU ms",
            "k3 CPU ms",
            "%",
        ]);
        for row in &self.rates {
            table.row([
                row.runtime.to_owned(),
                row.pods.to_string(),
                figure(row.bare_per_second),
                row.bare_at_once.to_string(),
                figure(row.bare_daemon_cpu * 1000.0),
                figure(row.k3_per_second),
                figure(row.k3_daemon_cpu * 1000.0),
                figure(row.k3_cpu * 1000.0),
                figure(row.percent()),
            ]);
        }
        table.print("Pods are made all at once");
        let mut table = Table::new(["", "pods", "alone MiB", "CPU %", "with node MiB", "CPU %"]);
        for row in &self.idle {
            table.row([
                row.runtime.to_owned(),
                row.pods.to_string(),
                figure(mebibytes(row.alone.resident_bytes)),
                figure(row.alone.cpu_percent),
                figure(mebibytes(row.with_node.resident_bytes)),
                figure(row.with_node.cpu_percent),
            ]);
        }
        table.print("Nothing happens");
        let mut table = Table::new(["", "pods", "kills", "restarted", "leaked", "statuses wrong"]);
        for row in &self.crashes {
            table.row([
                row.runtime.to_owned(),
                row.pods.to_string(),
                row.kills.to_string(),
                row.restarted.to_string(),
                row.leaked.to_string(),
                row.wrong.to_string(),
            ]);
        }
        table.print("The agent is killed");
        requirement::print(&self.requirements);
    }
}

// --- rows ---

impl StartRow {
    fn beyond_ms(&self) -> f64 {
        (self.k3.p50_us - self.bare.p50_us) / 1000.0
    }
}

impl RateRow {
    fn percent(&self) -> f64 {
        100.0 * self.k3_per_second / self.bare_per_second
    }
}

impl IdleRow {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn beyond_mebibytes(&self) -> f64 {
        (self.with_node.resident_bytes as f64 - self.alone.resident_bytes as f64) / 1_048_576.0
    }

    fn beyond_cpu(&self) -> f64 {
        self.with_node.cpu_percent - self.alone.cpu_percent
    }
}
