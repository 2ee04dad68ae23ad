//! What was measured, as JSON and as tables.

use serde::{Deserialize, Serialize};

use crate::{
    choices::{BenchEffort, Holder},
    flags::ApiOptions,
    machine::MachineInfo,
    requirement::{self, Requirement, RequirementBound},
    table::{Table, grouped},
};

const MEBIBYTE: f64 = 1_048_576.0;

/// Everything, in the order in which it was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InformerReport {
    pub(crate) machine: MachineInfo,
    pub(crate) quick: bool,
    pub(crate) release_build: bool,
    pub(crate) storage: &'static str,
    pub(crate) pods: usize,
    pub(crate) rows: Vec<Row>,
    pub(crate) asked: Vec<Requirement>,
}

/// One client.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) holder: String,
    /// Until all pods were held.
    pub(crate) seconds: f64,
    /// Resident memory with a connection and no pod, with all pods, and at most.
    pub(crate) before_bytes: u64,
    pub(crate) after_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) sharing: Option<MemorySharing>,
}

/// Handlers that share an informer, after one change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemorySharing {
    pub(crate) handlers: usize,
    pub(crate) informers: usize,
    pub(crate) watches: u64,
    /// How many handlers heard of it.
    pub(crate) notified: usize,
    /// How often it was decoded.
    pub(crate) decoded: u64,
}

// --- InformerReport ---

impl InformerReport {
    pub(crate) fn new(machine: MachineInfo, options: &ApiOptions, pods: usize) -> Self {
        Self {
            machine,
            quick: options.effort == BenchEffort::Quick,
            release_build: !cfg!(debug_assertions),
            storage: options.storage.name(),
            pods,
            rows: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Compares the results with what is asked.
    pub(crate) fn check_requirements(&mut self) {
        let seconds = |holder| self.median(holder, |row| row.seconds);
        let quicker = |holder| Some(seconds(Holder::Reflector)? / seconds(holder)?);
        let weight = |holder| self.median(holder, Row::weight);
        let heavier = |holder| Some(weight(holder)? / weight(Holder::Vector)?);
        let mut shared = self.rows.iter().filter_map(|row| row.sharing.as_ref());
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let shared = shared.next().map(|sharing| {
            let heard = sharing.notified as f64 / sharing.handlers as f64;
            (sharing.watches as f64, sharing.decoded as f64, heard)
        });
        self.asked = vec![
            Requirement::new(
                "times kube's reflector, typed",
                RequirementBound::AtLeast(1.5),
                quicker(Holder::Typed),
            ),
            Requirement::new(
                "times kube's reflector, slim",
                RequirementBound::AtLeast(2.5),
                quicker(Holder::Slim),
            ),
            Requirement::new(
                "times the memory of the objects, typed",
                RequirementBound::AtMost(1.3),
                heavier(Holder::Typed),
            ),
            Requirement::new(
                "watches of 50 handlers",
                RequirementBound::AtMost(1.0),
                shared.map(|shared| shared.0),
            ),
            Requirement::new(
                "decodings of an event for 50 handlers",
                RequirementBound::AtMost(1.0),
                shared.map(|shared| shared.1),
            ),
            Requirement::new(
                "times each handler hears of it",
                RequirementBound::AtLeast(1.0),
                shared.map(|shared| shared.2),
            ),
        ];
    }

    pub(crate) fn print(&self) {
        if !self.release_build {
            println!("\nThis is a debug build: its results mean nothing.");
        }
        let mut table = Table::new(["", "seconds", "pods/s", "MiB", "bytes/pod", "peak MiB"]);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let pods = self.pods as f64;
        for holder in Holder::ALL {
            let figure = |of: fn(&Row) -> f64| self.median(holder, of).unwrap_or_default();
            let seconds = figure(|row| row.seconds);
            let weight = figure(Row::weight);
            table.row([
                holder.name().to_owned(),
                format!("{seconds:.2}"),
                grouped(pods / seconds),
                grouped(weight / MEBIBYTE),
                grouped(weight / pods),
                grouped(figure(Row::peak) / MEBIBYTE),
            ]);
        }
        table.print(&format!("{} pods, the median of each", grouped(pods)));
        requirement::print(&self.asked);
    }

    fn median(&self, holder: Holder, of: impl Fn(&Row) -> f64) -> Option<f64> {
        let rows = self.rows.iter().filter(|row| row.holder == holder.name());
        let mut values: Vec<f64> = rows.map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }
}

// --- Row ---

impl Row {
    /// The bytes that the pods take.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn weight(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn peak(&self) -> f64 {
        self.peak_bytes as f64
    }
}
