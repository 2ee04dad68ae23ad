//! All that was measured, as JSON and as tables.

use serde::Serialize;

use super::{
    disk::SyncRate,
    footprint::{MemoryRow, SizeRow},
    load::CommitRow,
    lone::LoneWriter,
    opening::OpenRow,
    watches::{DeliveryRow, FanOutRow},
};
use crate::{
    choices::BenchEffort,
    machine::MachineInfo,
    requirement::{self, Requirement},
    table::{Table, grouped},
};

/// Everything, in the order in which it was measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StorageReport {
    pub(crate) machine: MachineInfo,
    pub(crate) quick: bool,
    pub(crate) release_build: bool,
    /// At the beginning and at the end.
    pub(crate) disk: Vec<SyncRate>,
    pub(crate) commits: Vec<CommitRow>,
    pub(crate) lone: Option<LoneWriter>,
    pub(crate) delivery: Vec<DeliveryRow>,
    pub(crate) fan_out: Vec<FanOutRow>,
    pub(crate) opening: Vec<OpenRow>,
    pub(crate) size: Option<SizeRow>,
    pub(crate) memory: Vec<MemoryRow>,
    pub(crate) asked: Vec<Requirement>,
}

// --- StorageReport ---

impl StorageReport {
    pub(crate) fn new(machine: MachineInfo, effort: BenchEffort) -> Self {
        Self {
            machine,
            quick: effort == BenchEffort::Quick,
            release_build: !cfg!(debug_assertions),
            disk: Vec::new(),
            commits: Vec::new(),
            lone: None,
            delivery: Vec::new(),
            fan_out: Vec::new(),
            opening: Vec::new(),
            size: None,
            memory: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn commits_of(&self, target: &str, writers: usize) -> Option<&CommitRow> {
        self.commits
            .iter()
            .find(|row| row.target == target && row.writers == writers)
    }

    pub(crate) fn print(&self) {
        if !self.release_build {
            println!("\nThis is a debug build: its results mean nothing.");
        }
        if !self.machine.on_disk {
            println!("\nThe data is in memory (tmpfs), not on a disk: choose another directory with --dir.");
        }
        self.print_commits();
        self.print_watches();
        self.print_footprint();
        requirement::print(&self.asked);
    }

    fn print_commits(&self) {
        let mut table = Table::new(["", "syncs/s", "p50 us", "p99 us"]);
        for disk in &self.disk {
            let LatencyPercents { p50, p99 } = percents(disk.latency);
            table.row([
                "4 KiB + fdatasync, alone".to_owned(),
                grouped(disk.syncs_per_second),
                p50,
                p99,
            ]);
        }
        table.print("The disk, at the beginning and at the end");
        if let Some(lone) = self.lone {
            let mut table = Table::new(["", "per second"]);
            table.row(["4 KiB + fdatasync".to_owned(), grouped(lone.syncs_per_second)]);
            table.row(["file, 1 writer".to_owned(), grouped(lone.commits_per_second)]);
            table.print("A lone writer and the disk, in turns");
        }
        let mut table = Table::new([
            "",
            "writers",
            "commits/s",
            "p50 us",
            "p99 us",
            "CPU us",
            "server CPU us",
        ]);
        for row in &self.commits {
            let LatencyPercents { p50, p99 } = percents(row.latency);
            table.row([
                row.target.clone(),
                row.writers.to_string(),
                grouped(row.commits_per_second),
                p50,
                p99,
                format!("{:.1}", row.own_cpu_us),
                format!("{:.1}", row.server_cpu_us),
            ]);
        }
        table.print("Commits of 1.5 KiB (CPU time per commit)");
    }

    fn print_watches(&self) {
        let mut table = Table::new(["", "watchers", "commits/s", "from", "p50 us", "p99 us"]);
        for row in &self.delivery {
            for (from, latency) in [("call", row.from_call), ("answer", row.from_answer)] {
                let LatencyPercents { p50, p99 } = percents(latency);
                table.row([
                    row.target.clone(),
                    row.watchers.to_string(),
                    grouped(row.commits_per_second),
                    from.to_owned(),
                    p50,
                    p99,
                ]);
            }
        }
        table.print("Watch delivery, each watcher matching a tenth");
        let mut table = Table::new(["", "watchers", "commits/s", "events/s", "CPU us per event"]);
        for row in &self.fan_out {
            table.row([
                row.target.clone(),
                row.watchers.to_string(),
                grouped(row.commits_per_second),
                grouped(row.events_per_second),
                format!("{:.2}", row.cpu_us_per_event),
            ]);
        }
        table.print("Events to watchers that want all, flat out");
    }

    fn print_footprint(&self) {
        let mut table = Table::new(["", "objects", "repair", "ms"]);
        for row in &self.opening {
            table.row([
                format!("file, after a {}", row.after),
                row.objects.to_string(),
                row.repair.to_owned(),
                format!("{:.1}", row.ms),
            ]);
        }
        table.print("Opening");
        if let Some(size) = &self.size {
            let mut table = Table::new([
                "",
                "keys",
                "updates",
                "live MiB",
                "MiB",
                "compacted MiB",
                "per live byte",
            ]);
            table.row([
                "file".to_owned(),
                size.keys.to_string(),
                size.updates.to_string(),
                mebibytes(size.live_bytes),
                mebibytes(size.before_bytes),
                mebibytes(size.after_bytes),
                format!("{:.2}", bytes_per_live_byte(size)),
            ]);
            table.print("Size on disk");
        }
        let mut table = Table::new(["", "objects", "empty MiB", "full MiB", "server MiB"]);
        for row in &self.memory {
            table.row([
                row.target.clone(),
                row.objects.to_string(),
                mebibytes(row.own_before_bytes),
                mebibytes(row.own_after_bytes),
                mebibytes(row.server_bytes),
            ]);
        }
        table.print("Memory (resident)");
    }
}

struct LatencyPercents {
    p50: String,
    p99: String,
}

fn percents(latency: crate::latency::Percentiles) -> LatencyPercents {
    LatencyPercents {
        p50: grouped(latency.p50_us),
        p99: grouped(latency.p99_us),
    }
}

/// How many bytes on disk there are for each byte of keys and values.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(crate) fn bytes_per_live_byte(size: &SizeRow) -> f64 {
    size.after_bytes as f64 / size.live_bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1_048_576.0)
}
