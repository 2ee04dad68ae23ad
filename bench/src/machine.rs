//! The machine: what the results depend on.

use std::path::Path;

use serde::Serialize;

use crate::BenchError;

/// The magic number of the file system that is no disk.
const TMPFS: i64 = 0x0102_1994;

/// What the results depend on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MachineInfo {
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// Whether the data was on a disk, and not in memory.
    pub(crate) on_disk: bool,
}

// --- MachineInfo ---

impl MachineInfo {
    pub(crate) fn find(dir: &Path) -> Result<Self, BenchError> {
        let on_disk = rustix::fs::statfs(dir)?.f_type != TMPFS;
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
            on_disk,
        })
    }
}
